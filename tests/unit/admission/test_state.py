"""What a partition remembers while it lives."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from admission.decide import decide
from admission.state import Mark
from admission.verdict import DeadLetter, Repeat, SendHome
from schemas.result import Rejected
from schemas.tenancy import CURSOR_KEY, Cursor, Outstanding, TenantRecord, job_key
from tests.unit.admission.scene import (
    BIRTH,
    NOW_MS,
    TENANT,
    Partition,
    accepted,
    arrival,
    failed,
    fresh_state,
    make_world,
    rejected,
    request,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def test_an_acceptance_is_written_as_tenant_job_and_cursor() -> None:
    partition = Partition()
    work = accepted(partition.send(request(), at_ms=NOW_MS))
    written = dict(partition.tenants)
    assert set(written) == {TENANT.encode(), job_key(work.job_id), CURSOR_KEY}
    account = TenantRecord.model_validate_json(written[TENANT.encode()] or b"")
    assert account == TenantRecord(tokens=4.0, as_of_ms=NOW_MS, accepted=1, since=1)
    job = TypeAdapter(Outstanding).validate_json(written[job_key(work.job_id)] or b"")
    assert (job.tenant, job.request_id, job.offset, job.number) == (TENANT, "r1", 0, 1)
    cursor = Cursor.model_validate_json(written[CURSOR_KEY] or b"")
    assert cursor == Cursor(
        birth=BIRTH, next=1, emitted_through=0, clock_ms=NOW_MS, results_next=0, decided=1, emitted=0, oldest=1
    )


def test_the_cursor_is_written_even_when_nothing_changed() -> None:
    state = fresh_state()
    assert [key for key, _ in state.drain_changes()] == [CURSOR_KEY]
    assert [key for key, _ in state.drain_changes()] == [CURSOR_KEY]


def test_changes_are_handed_over_once() -> None:
    partition = Partition()
    partition.decide(arrival(request()))
    assert len(partition.state.drain_changes()) == 3
    assert len(partition.state.drain_changes()) == 1


def test_every_verdict_moves_next_and_only_decisions_are_numbered() -> None:
    state = fresh_state()
    state.apply(arrival(b"", 0), DeadLetter("malformed", "no"))
    state.apply(arrival(b"", 5), SendHome(2, NOW_MS))
    state.apply(arrival(b"", 6), Repeat("job", NOW_MS))
    assert (state.next, state.decided, state.clock_ms) == (7, 0, NOW_MS)


def test_an_offset_is_decided_once() -> None:
    state = fresh_state()
    state.apply(arrival(b"", 5), DeadLetter("malformed", "no"))
    with pytest.raises(AssertionError, match="offset 5"):
        state.apply(arrival(b"", 5), DeadLetter("malformed", "no"))


def test_markers_at_the_end_are_skipped_and_next_never_falls() -> None:
    state = fresh_state()
    state.skip_to(9)
    state.skip_to(3)
    assert state.next == 9


# The clock -----------------------------------------------------------------------------------------------------------


def test_quota_time_never_goes_back_and_never_runs_ahead_of_us() -> None:  # case ADM-01
    state = fresh_state()
    assert state.clock_after(NOW_MS + 5_000, NOW_MS) == NOW_MS + 5_000
    assert state.clock_after(NOW_MS + DAY_MS, NOW_MS) == NOW_MS + 5_000
    state.apply(arrival(b"", 0), DeadLetter("malformed", "no", clock_ms=NOW_MS))
    assert state.clock_after(NOW_MS - 2 * DAY_MS, NOW_MS) == NOW_MS
    assert state.clock_after(NOW_MS + 1, NOW_MS - DAY_MS) == NOW_MS


def test_a_record_from_a_broken_clock_refills_no_bucket() -> None:  # case ADM-01
    partition = Partition()
    for n in range(5):
        accepted(partition.send(request(f"r{n}")))
    record = arrival(request("jump"), partition.state.next, at_ms=NOW_MS + DAY_MS)
    verdict = decide(record, partition.state, partition.world, NOW_MS)
    work = accepted(verdict)  # five seconds are believed, no more
    partition.state.apply(record, verdict)
    account = partition.state.account(work.tenant)
    assert account is not None
    assert account.tokens == 4.0
    assert partition.state.clock_ms == NOW_MS + 5_000


# Results -------------------------------------------------------------------------------------------------------------


def test_a_result_ends_its_job_and_counts_its_gpu_time_once() -> None:
    partition = Partition()
    work = accepted(partition.send(request()))
    result = failed(partition.state, work.job_id, 2.5)
    for _ in range(3):
        partition.state.fold_result(result, 7)
    assert partition.state.results_next == 8
    assert not partition.state.outstanding
    account = partition.state.account(TENANT)
    assert account is not None
    assert (account.finished, account.gpu_seconds) == (1, 2.5)
    assert dict(partition.state.drain_changes())[job_key(work.job_id)] is None
    partition.state.fold_result(result, 3)
    assert partition.state.results_next == 8


def test_our_own_rejections_and_what_cannot_be_read_only_move_on() -> None:
    partition = Partition()
    refusal = rejected(partition.send(request(seed=-1)))
    assert isinstance(refusal, Rejected)
    partition.state.fold_result(refusal, 0)
    partition.state.fold_result(None, 1)
    partition.state.fold_result(failed(partition.state, "unknown", 1.0), 2)
    assert partition.state.results_next == 3
    partition.state.check_integrity()


# Leaving -------------------------------------------------------------------------------------------------------------


def test_names_leave_after_the_window_and_the_oldest_number_follows() -> None:
    partition = Partition()
    rejected(partition.send(request("old", seed=-1)))
    rejected(partition.send(request("young", seed=-1), at_ms=NOW_MS + 1000))
    assert partition.state.cursor().oldest == 1
    partition.send(b"", at_ms=NOW_MS + HOUR_MS)
    assert len(partition.state.names) == 1
    assert partition.state.cursor().oldest == 2
    partition.send(b"", at_ms=NOW_MS + HOUR_MS + 1000)
    assert len(partition.state.names) == 0
    assert partition.state.cursor().oldest == 3


def test_after_the_window_a_name_is_new_again() -> None:
    partition = Partition()
    rejected(partition.send(request(seed=-1)))
    assert isinstance(partition.send(request(seed=-1), at_ms=NOW_MS + HOUR_MS - 1), Repeat)
    rejected(partition.send(request(seed=-1), at_ms=NOW_MS + HOUR_MS))
    assert partition.state.decided == 2
    assert len(partition.state.names) == 1


def test_a_name_stays_while_its_job_is_outstanding() -> None:
    partition = Partition()
    work = accepted(partition.send(request()))
    later = NOW_MS + 3 * HOUR_MS
    assert isinstance(partition.send(request(), at_ms=later), Repeat)
    assert partition.state.cursor().oldest == 2, "the job's record holds the name, its decision may leave the log"
    partition.finish(work.job_id)
    assert len(partition.state.names) == 0
    again = accepted(partition.send(request(), at_ms=later))
    assert again.job_id != work.job_id


def test_a_job_without_a_result_is_given_up_after_its_deadline_and_slack() -> None:
    partition = Partition(make_world(outstanding_slack_seconds=60))
    work = accepted(partition.send(request()))
    partition.send(b"", at_ms=NOW_MS + DAY_MS + 59_999)
    assert work.job_id in partition.state.outstanding
    partition.send(b"", at_ms=NOW_MS + DAY_MS + 60_000)
    assert not partition.state.outstanding
    assert len(partition.state.names) == 0
    account = partition.state.account(TENANT)
    assert account is not None
    assert (account.accepted, account.dropped, account.finished) == (1, 1, 0)
    assert dict(partition.tenants)[job_key(work.job_id)] is None
    partition.state.check_integrity()


def test_a_stranger_gets_no_account() -> None:
    partition = Partition()
    for n in range(50):
        partition.decide(arrival(json.dumps(request(tenant="t")).encode(), n))
    assert [name for name, _ in partition.state.accounts()] == []


# Emission ------------------------------------------------------------------------------------------------------------


def test_emitted_is_what_was_decided_at_its_mark() -> None:
    partition = Partition()
    state, marks = partition.state, [partition.state.mark()]
    values: list[dict[str, Any] | bytes] = [request("a"), b"", request("b"), request("c", seed=-1)]
    for offset, value in enumerate(values):
        partition.decide(arrival(value, offset))
        marks.append(state.mark())
    state.emitted(marks[2])
    assert (state.cursor().emitted_through, state.cursor().emitted) == (2, 1)
    state.emitted(marks[0])
    assert (state.cursor().emitted_through, state.cursor().emitted) == (2, 1), "it never goes back"
    state.emitted(marks[4])
    assert (state.cursor().emitted_through, state.cursor().emitted) == (4, 3)
    for ahead in (Mark(5, 3), Mark(4, 4)):
        with pytest.raises(AssertionError):
            state.emitted(ahead)


def test_a_decision_not_emitted_is_needed_however_old_it_is() -> None:
    partition = Partition()
    partition.decide(arrival(request(), 0))
    partition.state.fold_result(failed(partition.state, next(iter(partition.state.outstanding)), 1.0), 0)
    partition.decide(arrival(b"", 1, at_ms=NOW_MS + 2 * DAY_MS))
    assert len(partition.state.names) == 0
    assert partition.state.cursor().oldest == 1

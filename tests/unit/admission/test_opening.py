"""What an opening makes of the logs, and when it refuses."""

from uuid import UUID

import pytest

from admission.decide import decide
from admission.errors import StateRefused
from admission.settings import AdmissionLimits
from admission.state import State
from admission.verdict import Repeat
from schemas.tenancy import CURSOR_KEY
from schemas.tenants import Quota, Tenants
from tests.unit.admission.scene import (
    BIRTH,
    HOME,
    NOW_MS,
    Partition,
    accepted,
    arrival,
    decided,
    failed,
    make_world,
    request,
    snapshot,
)

HOUR_MS = 3_600_000
OTHER = UUID(int=7)


def lived_through() -> Partition:
    """Accepted, refused, finished, sent twice, dead; one decision not produced."""
    partition = Partition()
    first = accepted(partition.send(request("a")))
    partition.send(request("b", seed=-1), at_ms=NOW_MS + 10)
    partition.send(b"garbage", at_ms=NOW_MS + 20)
    partition.finish(first.job_id)
    partition.send(request("a"), at_ms=NOW_MS + 30)
    partition.send(request("c", tenant="ivan"), at_ms=NOW_MS + 40)
    partition.decide(arrival(request("d"), partition.state.next, at_ms=NOW_MS + 50))
    partition.log()
    return partition


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("tenants_first", [False, True])
def test_a_successor_knows_what_its_predecessor_knew(compacted: bool, tenants_first: bool) -> None:
    partition = lived_through()
    state, _ = partition.take_over(compacted=compacted, tenants_first=tenants_first)
    assert snapshot(state) == snapshot(partition.state)
    state.check_integrity()


@pytest.mark.parametrize("tenants_first", [False, True])
def test_what_was_decided_and_not_produced_is_produced_again_byte_for_byte(tenants_first: bool) -> None:
    partition = lived_through()
    _, again = partition.take_over(tenants_first=tenants_first)
    assert [each.request_id for each in again] == ["d"]
    partition.emit()
    assert again == partition.produced[-1:]
    partition.log()
    assert partition.take_over()[1] == []


def test_the_successor_of_an_emission_that_was_not_noted_repeats_it() -> None:
    partition = lived_through()
    partition.emit()  # and killed before the next transaction
    _, again = partition.take_over()
    assert [each.request_id for each in again] == ["d"]


def test_a_new_partition_mints_its_birth_once() -> None:
    state = State(HOME, AdmissionLimits())
    assert state.opened(lambda: BIRTH, 10, None, NOW_MS) == []
    assert (state.birth, state.next, state.decided) == (BIRTH, 0, 0)
    successor = State(HOME, AdmissionLimits())
    for key, value in state.drain_changes():
        successor.fold_tenants(key, value)
    successor.opened(lambda: OTHER, 10, 0, NOW_MS)
    assert successor.birth == BIRTH


def test_the_group_s_offset_is_not_believed() -> None:
    partition = lived_through()
    for committed in (None, 0, 99):
        state = partition.fold()
        state.opened(lambda: OTHER, partition.state.next, committed, NOW_MS)
        assert state.next == partition.state.next


def test_names_beyond_the_window_are_not_kept() -> None:
    partition = lived_through()
    partition.send(b"", at_ms=NOW_MS + 2 * HOUR_MS)
    partition.log()
    state, _ = partition.take_over(now_ms=NOW_MS + 2 * HOUR_MS)
    assert set(state.names) == {b"ivan/c", b"alice/d"}, "their jobs are outstanding"


def test_a_name_outlives_the_retention_of_its_decision_while_its_job_is_outstanding() -> None:
    partition = Partition()
    work = accepted(partition.send(request()))
    partition.send(request("later", seed=-1), at_ms=NOW_MS + 2 * HOUR_MS)
    partition.log()
    del partition.decisions[0]
    state, _ = partition.take_over(now_ms=NOW_MS + 2 * HOUR_MS)
    partition.state = state
    assert partition.decide(arrival(request(), state.next, at_ms=NOW_MS + 2 * HOUR_MS)) == Repeat(
        work.job_id, NOW_MS + 2 * HOUR_MS
    )


def test_jobs_overdue_while_nobody_was_there_are_given_up_at_the_opening() -> None:
    partition = lived_through()
    state, _ = partition.take_over(now_ms=NOW_MS + 30 * HOUR_MS)
    assert not state.outstanding
    state.check_integrity()


def test_no_job_is_given_up_before_the_results_of_the_outage_are_read() -> None:
    """Else what expired while admission was away would cost its price, and what was used would be in no bill."""
    partition, late_ms = Partition(), NOW_MS + 30 * HOUR_MS
    jobs = [accepted(partition.send(request(name))).job_id for name in ("r1", "r2")]
    state = partition.fold()
    state.opened(lambda: OTHER, partition.state.next, None, late_ms, results_end=1)
    refused = arrival(request("r3", seed=-1), state.next, at_ms=late_ms)
    state.apply(refused, decide(refused, state, partition.world, late_ms))
    assert state.outstanding.keys() == set(jobs)
    state.fold_result(failed(state, jobs[0], 1.0), 0)
    assert state.outstanding.keys() == {jobs[1]}, "one more may come"
    state.see_results(whole=True, now_ms=late_ms)
    assert not state.outstanding
    account = state.account("alice")
    assert account is not None
    assert (account.finished, account.dropped, account.gpu_seconds) == (1, 1, 1.0)
    state.check_integrity()


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_a_decision_missing_in_the_window_is_refused_and_named(lost: int) -> None:
    partition = lived_through()
    del partition.decisions[lost]
    with pytest.raises(StateRefused, match=f"decision {lost + 1} of partition {HOME} is missing"):
        partition.take_over()


def test_decisions_that_left_after_the_window_are_not_missed() -> None:
    partition = lived_through()
    partition.emit()
    partition.send(request("late", seed=-1), at_ms=NOW_MS + 2 * HOUR_MS)
    partition.log()
    del partition.decisions[:4]
    partition.take_over(now_ms=NOW_MS + 2 * HOUR_MS)


@pytest.mark.parametrize("left", [0, 1])
def test_decisions_that_left_in_a_quiet_week_do_not_keep_admission_from_starting(left: int) -> None:
    """Nothing came that would have moved the clock, and then retention took them. Their names are over."""
    partition = lived_through()
    partition.emit()
    partition.log()
    week_ms = NOW_MS + 8 * 24 * HOUR_MS
    partition.decisions = partition.decisions[len(partition.decisions) - left :]
    with pytest.raises(StateRefused, match="missing"):
        partition.take_over(now_ms=NOW_MS + HOUR_MS // 2)
    partition.state, again = partition.take_over(now_ms=week_ms)
    assert again == []
    partition.log()  # the opening's own transaction, and nothing came before the next opening either
    partition.state, _ = partition.take_over(now_ms=week_ms)
    partition.state.check_integrity()
    assert decided(partition.send(request("a"), at_ms=week_ms)).number == 5
    assert partition.state.cursor().oldest == 5
    partition.state, _ = partition.take_over(now_ms=week_ms)
    assert isinstance(partition.send(request("a"), at_ms=week_ms), Repeat)


def test_a_request_that_waited_longer_than_decisions_are_kept_is_not_taken_for_new() -> None:
    partition = lived_through()
    partition.emit()
    partition.log()
    week_ms = NOW_MS + 8 * 24 * HOUR_MS
    partition.decisions.clear()
    for _ in range(2):
        partition.state, _ = partition.take_over(now_ms=week_ms)
        with pytest.raises(StateRefused, match="whether it is a repeat cannot be told"):
            partition.send(request("a"), at_ms=NOW_MS + HOUR_MS // 2)
        partition.log()
    state = partition.fold()
    state.opened(lambda: OTHER, partition.state.next, None, week_ms, accept_loss=True)
    partition.state = state
    assert decided(partition.send(request("b"), at_ms=NOW_MS + HOUR_MS // 2)).number == 5


def test_a_hole_or_work_not_produced_is_refused_after_any_time() -> None:
    week_ms = NOW_MS + 8 * 24 * HOUR_MS
    partition = lived_through()
    del partition.decisions[1]
    with pytest.raises(StateRefused, match="decision 2"):
        partition.take_over(now_ms=week_ms)
    partition = lived_through()  # its last one is not produced
    partition.decisions.clear()
    with pytest.raises(StateRefused, match="decision 1"):
        partition.take_over(now_ms=week_ms)


def test_a_requests_log_that_shrank_is_refused() -> None:
    partition = lived_through()
    with pytest.raises(StateRefused, match="shrank"):
        partition.fold().opened(lambda: OTHER, partition.state.next - 1, None, NOW_MS)


def test_a_results_log_that_shrank_is_refused() -> None:
    partition = lived_through()
    with pytest.raises(StateRefused, match="results"):
        partition.fold().opened(lambda: OTHER, partition.state.next, None, NOW_MS, results_end=0)


def test_empty_logs_beside_a_committed_offset_are_refused() -> None:
    with pytest.raises(StateRefused, match="committed offset 5"):
        State(HOME, AdmissionLimits()).opened(lambda: BIRTH, 5, 5, NOW_MS)


def test_decisions_without_a_cursor_are_refused() -> None:
    partition = lived_through()
    partition.tenants.clear()
    with pytest.raises(StateRefused, match="no cursor"):
        partition.take_over()


def test_decisions_beyond_the_cursor_are_refused() -> None:
    partition = lived_through()
    cursors = [record for record in partition.tenants if record[0] == CURSOR_KEY]
    partition.tenants = cursors[:2]
    with pytest.raises(StateRefused, match="its cursor ends at 1"):
        partition.take_over()


@pytest.mark.parametrize(
    ("key", "value"),
    [(CURSOR_KEY, b"{}"), (b"alice", b"\xff"), (b"\x00job/x", b'{"schema_version":2}')],
)
def test_a_record_that_cannot_be_read_is_refused(key: bytes, value: bytes) -> None:
    partition = lived_through()
    partition.tenants.append((key, value))
    with pytest.raises(StateRefused, match="upgrade"):
        partition.take_over()


@pytest.mark.parametrize("headers", [(), (("n", b"one"),), (("n", b"1"), ("digest", b""))])
def test_a_record_in_decisions_that_is_none_is_refused(headers: tuple[tuple[str, bytes], ...]) -> None:
    with pytest.raises(StateRefused, match="headers"):
        State(HOME, AdmissionLimits()).fold_decision(b"alice/a", headers, b"{}")


# Accepted loss -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_with_the_loss_accepted_names_before_the_hole_are_forgotten_and_the_next_opening_is_whole(lost: int) -> None:
    partition = lived_through()
    del partition.decisions[lost]
    state = partition.fold()
    again = state.opened(lambda: OTHER, partition.state.next, None, NOW_MS, accept_loss=True)
    assert [each.request_id for each in again] == (["d"] if lost != 3 else [])
    assert state.birth == BIRTH
    assert state.decided == 4
    partition.state = state
    partition.log()
    successor, again = partition.take_over()
    assert again == []
    assert snapshot(successor) == snapshot(state)
    successor.check_integrity()


def test_with_the_loss_accepted_a_log_that_begins_again_gets_a_new_birth() -> None:
    partition = lived_through()
    state = partition.fold()
    state.opened(lambda: OTHER, 2, None, NOW_MS, results_end=0, accept_loss=True)
    assert (state.birth, state.next, state.emitted_through, state.results_next) == (OTHER, 2, 2, 0)
    state.check_integrity()


def test_with_the_loss_accepted_empty_logs_go_on_at_the_committed_offset() -> None:
    state = State(HOME, AdmissionLimits())
    assert state.opened(lambda: BIRTH, 9, 5, NOW_MS, accept_loss=True) == []
    assert (state.next, state.emitted_through, state.decided) == (5, 5, 0)


def test_with_the_loss_accepted_a_lost_cursor_keeps_the_names_and_goes_on_counting() -> None:
    partition = lived_through()
    partition.tenants.clear()
    state = partition.fold()
    assert state.opened(lambda: OTHER, 99, partition.state.next, NOW_MS, accept_loss=True) == []
    partition.state = state
    assert decided(partition.send(request("e"))).number == 5
    assert isinstance(partition.send(request("d")), Repeat)


def test_where_nothing_is_lost_the_flag_changes_nothing() -> None:
    partition = lived_through()
    state = partition.fold()
    again = state.opened(lambda: OTHER, partition.state.next, None, NOW_MS, accept_loss=True)
    assert [each.request_id for each in again] == ["d"]
    assert snapshot(state) == snapshot(partition.state)


def test_limits_that_contradict_the_topics_end_the_start() -> None:
    with pytest.raises(ValueError, match="KILN_TOPICS_DECISIONS_RETENTION_MS"):
        make_world(dedupe_window_seconds=7 * 86_400)
    with pytest.raises(ValueError, match="KILN_TOPICS_WORK_RETENTION_MS"):  # what expires there is lost
        make_world(deadline_seconds_max=30 * 86_400)
    with pytest.raises(ValueError, match="default_deadline_seconds"):
        make_world(default_deadline_seconds=8 * 86_400)


def test_decisions_that_are_over_need_not_be_read() -> None:
    partition = Partition(make_world(tenants=Tenants(default=Quota(per_second=1000, burst=1000))))
    for number in range(20):
        work = accepted(partition.send(request(f"r{number}"), at_ms=NOW_MS + number * HOUR_MS // 10))
        if number % 2:
            partition.finish(work.job_id)
    partition.decide(arrival(request("d"), partition.state.next, at_ms=partition.state.clock_ms))  # and not produced
    partition.log()
    whole, produced_again = partition.take_over(partition.state.clock_ms)

    probe = partition.fold()
    over = [probe.is_over(headers) for _, headers, _ in partition.decisions]
    assert over == sorted(over, reverse=True), "what is needed comes after what is not"
    assert 5 < sum(over) < 15
    for left_out in (1, sum(over)):
        shorter = Partition(partition.world)
        shorter.state, shorter.tenants = partition.state, partition.tenants
        shorter.decisions = partition.decisions[left_out:]
        state, again = shorter.take_over(partition.state.clock_ms)
        assert snapshot(state) == snapshot(whole)
        assert again == produced_again
    shorter.decisions = partition.decisions[sum(over) + 1 :]
    with pytest.raises(StateRefused, match="was truncated"):
        shorter.take_over(partition.state.clock_ms)


def test_without_a_cursor_no_decision_is_over() -> None:
    partition = lived_through()
    state = State(HOME, AdmissionLimits())
    assert not any(state.is_over(headers) for _, headers, _ in partition.decisions)
    with pytest.raises(StateRefused, match="lacks the headers"):
        state.is_over([("n", b"x")])

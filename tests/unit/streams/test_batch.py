"""A batch as one transaction: decisions, tenants, results, dead letters and the offset, together."""

import pytest
from aiokafka import TopicPartition
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from admission.arrival import Arrival
from admission.verdict import DeadLetter
from schemas.dead_letter import HEADER_OFFSET, HEADER_REASON
from schemas.partition import partition_of
from schemas.result import parse_result
from schemas.tenancy import CURSOR_KEY, Cursor
from schemas.topics import RECORD_BYTES_MAX, REQUEST_BYTES_MAX
from streams.batch import HEADER_HOME, HEADER_TRUNCATED, Batch, dead_letter, progress, sent_home
from streams.kafka.sending import Output
from tests.unit.admission.scene import HOME, NOW_MS, arrival, failed, fresh_state, make_world, request

WORLD = make_world()
CATALOGUE = WORLD.catalogue


def of(outputs: list[Output], topic: str) -> list[Output]:
    return [output for output in outputs if output.topic == topic]


def cursor_in(outputs: list[Output]) -> Cursor:
    (cursor,) = [each for each in of(outputs, CATALOGUE.tenants) if each.key == CURSOR_KEY]
    return Cursor.model_validate_json(cursor.value or b"")


def stranger() -> str:
    """A tenant that is at home elsewhere."""
    names = (f"tenant-{number}" for number in range(100))
    return next(name for name in names if partition_of(name.encode(), CATALOGUE.requests_partitions) != HOME)


def test_every_verdict_has_its_record_and_all_share_one_offset() -> None:
    state = fresh_state()
    arrivals = [
        arrival(request("r1"), 0),
        arrival(request("r1"), 1),  # a repeat: silent
        arrival(request("r1", prompt="another"), 2),  # a conflict
        arrival(request("r2", config={"name": "nothing"}), 3),  # a rejection
        arrival(None, 4),  # case FST-04
        arrival(request("r3", tenant=stranger()), 5),
    ]
    batch = Batch(state, WORLD, NOW_MS)
    batch.decide(arrivals)
    transaction = batch.close()
    outputs = list(transaction.outputs)
    assert transaction.offsets == {TopicPartition(CATALOGUE.requests, HOME): 6}
    assert [each.key for each in of(outputs, CATALOGUE.decisions)] == [b"alice/r1", b"alice/r2"]
    assert [parse_result(each.value or b"").status for each in of(outputs, CATALOGUE.results)] == ["rejected"]
    assert [dict(each.headers)[HEADER_REASON] for each in of(outputs, CATALOGUE.dead_letters)] == [
        b"conflicting_duplicate",
        b"malformed",
    ]
    (home,) = of(outputs, CATALOGUE.requests)
    assert (home.partition, home.value) == (partition_of(stranger().encode(), 4), arrivals[5].value)
    assert dict(home.headers)[HEADER_HOME] == f"{HOME}/5".encode()
    assert [each.request_id for each in batch.accepted] == ["r1"]
    cursor = cursor_in(outputs)
    assert (cursor.next, cursor.decided, cursor.emitted_through) == (6, 2, 0)
    assert not any(each.topic.startswith(CATALOGUE.work("default", "standard")) for each in outputs)


def test_results_are_folded_in_the_same_transaction() -> None:
    state = fresh_state()
    first = Batch(state, WORLD, NOW_MS)
    first.decide([arrival(request("r1"), 0)])
    (decision,) = first.accepted
    assert decision.job_id in state.outstanding
    result = failed(state, decision.job_id, 1.0)
    batch = Batch(state, WORLD, NOW_MS)
    batch.fold([(7, result), (8, None)], whole=True)
    assert decision.job_id not in state.outstanding
    assert batch.results == 2
    assert cursor_in(list(batch.close().outputs)).results_next == 9


def test_results_are_folded_before_time_passes_with_the_requests() -> None:
    """After an outage the first request may be of a time at which their jobs are overdue."""
    state = fresh_state()
    first = Batch(state, WORLD, NOW_MS)
    first.decide([arrival(request(name), number) for number, name in enumerate(("r1", "r2"))])
    result, late_ms = failed(state, first.accepted[0].job_id, 1.0), NOW_MS + 30 * 3_600_000
    late = [arrival(request("late", seed=-1), 2, at_ms=late_ms)]
    batch = Batch(state, WORLD, late_ms)
    batch.fold([(0, result)], whole=False)
    batch.decide(late)
    assert batch.usage.gpu_seconds == {"alice": 1.0}
    assert state.outstanding.keys() == {first.accepted[1].job_id}
    Batch(state, WORLD, late_ms).fold([], whole=True)
    assert not state.outstanding


def test_a_dead_letter_that_its_topic_would_refuse_is_cut() -> None:  # case KQ-17
    bomb = Arrival(HOME, 5, NOW_MS, b"key", b"x" * (RECORD_BYTES_MAX + 1), ())
    output = dead_letter(bomb, DeadLetter("malformed", "too large"), CATALOGUE)
    size = len(output.key or b"") + len(output.value or b"") + sum(len(k) + len(v) for k, v in output.headers)
    assert size < RECORD_BYTES_MAX
    assert str(len(bomb.value or b"")).encode() in dict(output.headers)[HEADER_TRUNCATED]
    assert dict(output.headers)[HEADER_OFFSET] == b"5"


def test_a_request_too_large_for_its_home_is_not_lost() -> None:
    large = Arrival(HOME, 5, NOW_MS, b"key", b"x" * REQUEST_BYTES_MAX, ())
    assert sent_home(large, 0, CATALOGUE).topic == CATALOGUE.dead_letters
    headed = Arrival(HOME, 5, NOW_MS, b"key", b"x", [("h", b"y" * REQUEST_BYTES_MAX), ("null", None)])  # case ADM-14
    output = sent_home(headed, 0, CATALOGUE)
    assert (output.topic, output.headers) == (CATALOGUE.requests, ((HEADER_HOME, f"{HOME}/5".encode()),))


@pytest.mark.parametrize("unit", [("", None), ("h", b""), ("h", b"xyz")])
def test_many_small_headers_weigh_what_they_weigh_on_the_wire(unit: tuple[str, bytes | None]) -> None:
    """Case ADM-14: each has lengths beside its bytes; a transaction that a broker refuses would stop the partition."""
    for topic_bytes, output in [
        (REQUEST_BYTES_MAX, sent_home(Arrival(HOME, 5, NOW_MS, b"k", b"v", [unit] * 400_000), 0, CATALOGUE)),
        (
            RECORD_BYTES_MAX,
            dead_letter(
                Arrival(HOME, 5, NOW_MS, b"k", b"v", [unit] * 2_000_000), DeadLetter("malformed", "no"), CATALOGUE
            ),
        ),
    ]:
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 16 * RECORD_BYTES_MAX)
        builder.append(0, 0, output.key, output.value, list(output.headers))
        assert builder.size() <= topic_bytes


def test_progress_alone_says_where_we_are() -> None:
    state = fresh_state()
    state.skip_to(9)
    transaction = progress(state, CATALOGUE)
    assert transaction.offsets == {TopicPartition(CATALOGUE.requests, HOME): 9}
    assert cursor_in(list(transaction.outputs)).next == 9

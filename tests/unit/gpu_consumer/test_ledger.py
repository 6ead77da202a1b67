"""Marks, deaths and the record of a ledger."""

import tracemalloc

import pytest

from gpu_consumer.ledger import Ledger, Mark
from schemas.errors import Undecodable, UnknownVersion


def test_a_mark_of_another_process_is_respected_until_its_expected_end() -> None:
    mark = Mark("other", since_ms=1000, until_ms=5000)
    assert mark.runs_elsewhere("me", 4999)
    assert not mark.runs_elsewhere("me", 5000), "a holder frozen past its expected end is not waited for"
    assert not mark.runs_elsewhere("other", 2000)


# case KQ-04
def test_deaths_are_counted_in_the_ledger_and_survive_a_hand_over() -> None:
    ledger = Ledger()
    ledger.mark(0, Mark("a", 1000, 2000))
    ledger.marks[0] = ledger.marks[0].engine_died()
    ledger.unmark(0)
    found = Ledger.decode(ledger.encode()).marks[0]
    assert (found.engine_deaths, found.consumer_deaths) == (1, 0)
    assert not found.runs_elsewhere("b", 1500), "what was handed back runs nowhere"
    again = found.taken_over("b", 3000, 4000)
    assert (again.engine_deaths, again.consumer_deaths) == (1, 0)
    killed = again.taken_over("c", 5000, 6000)
    assert (killed.engine_deaths, killed.consumer_deaths) == (1, 1), "b left its mark behind: it was killed"
    assert killed.taken_over("c", 7000, 8000).consumer_deaths == 1


def test_a_clean_hand_over_leaves_nothing() -> None:
    ledger = Ledger()
    ledger.mark(3, Mark("a", 1000, 2000))
    ledger.unmark(3)
    ledger.unmark(4)
    assert not ledger.marks


def test_the_run_ahead_is_bounded_from_the_watermark() -> None:
    ledger = Ledger(watermark=10)
    assert ledger.room(10 + 2047, 2048)
    assert not ledger.room(10 + 2048, 2048)


def test_finishing_twice_is_our_own_bug() -> None:
    ledger = Ledger()
    ledger.finish(2)
    with pytest.raises(AssertionError, match="finished before"):
        ledger.finish(2)
    with pytest.raises(AssertionError, match="cannot run"):
        ledger.mark(2, Mark("a", 0, 0))


def test_a_hole_of_a_million_offsets_is_one_step() -> None:
    ledger = Ledger()
    ledger.finish_range(0, 1_000_000)
    assert (ledger.watermark, ledger.bits) == (1_000_000, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"watermark":-1,"finished":"0","marks":{}}',
        b'{"watermark":1,"finished":"zz","marks":{}}',
        b'{"watermark":1,"finished":"0","marks":{"x":["a",1,2,0,0]}}',
        b'{"watermark":9223372036854775808,"finished":"0","marks":{}}',  # no log is as long
        b'{"watermark":1,"finished":"0","marks":{"1":["a",1%s,2,0,0]}}' % (b"0" * 400),
    ],
)
def test_garbage_never_starts_from_nothing(data: bytes) -> None:
    with pytest.raises(Undecodable):
        Ledger.decode(data)


def test_a_newer_ledger_is_not_read() -> None:
    with pytest.raises(UnknownVersion, match="upgrade"):
        Ledger.decode(b'{"schema_version":2}')


# case KQ-08
def test_a_thousand_million_removed_records_are_passed_over_at_once() -> None:
    ledger = Ledger()
    ledger.finish(1001)
    tracemalloc.start()
    ledger.finish_range(0, 10**9)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ledger == Ledger(10**9)
    assert peak_bytes < 1 << 20

"""The account of a fuzz over a broker sees what it is there to see."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from admission.arrival import Arrival
from schemas.dead_letter import HEADER_OFFSET, HEADER_PARTITION
from schemas.names import request_name
from streams.batch import HEADER_HOME
from tests.admission import Seen
from tests.fuzz import account
from tests.unit.admission.scene import TENANT, arrival, request

NAMED = {(1, 0): arrival(request("r1"), 0)}
WORK = b'{"prompt":"a cat"}'
AGAIN = NAMED | {(1, 1): arrival(request("r1"), 1)}


def decision(offset: int, number: int = 1, partition: int = 1) -> Seen:
    body = {"offset": offset, "number": number, "job_id": f"job{offset}", "verdict": "rejected"}
    return Seen(partition, 0, request_name(TENANT, "r1"), json.dumps(body).encode(), ())


def dead(offset: int) -> Seen:
    return Seen(0, 0, None, b"", ((HEADER_PARTITION, b"1"), (HEADER_OFFSET, str(offset).encode())))


def home(offset: int, at: int) -> Arrival:
    return arrival(request("r1"), at, headers=[(HEADER_HOME, f"1/{offset}".encode())])


@pytest.mark.parametrize(
    ("requests", "decisions", "dead_letters"),
    [
        (NAMED, [decision(0)], []),
        (NAMED, [], [dead(0)]),
        (AGAIN, [decision(0)], []),
        ({(1, 0): arrival(b"no name", 0)}, [], [dead(0)]),
        ({(1, 0): arrival(request("r1"), 0), (1, 1): home(0, 1)}, [decision(1)], []),
        ({(1, 0): arrival(request("r1", cancel=True), 0)}, [], []),
    ],
)
def test_one_end_each_is_well(requests: Mapping[Any, Arrival], decisions: list[Seen], dead_letters: list[Seen]) -> None:
    assert list(account._ends(requests, decisions, dead_letters)) == []


@pytest.mark.parametrize(
    ("requests", "decisions", "dead_letters", "flaw"),
    [
        (NAMED, [], [], "was dropped, and its name was not taken"),
        (AGAIN, [decision(1)], [], "1/0 was dropped"),
        (NAMED, [decision(0)], [dead(0)], "ended 2 times"),
        (NAMED, [decision(0), decision(0)], [], "ended 2 times"),
        (NAMED, [decision(0), decision(7)], [], "where there is no request"),
        ({(1, 0): arrival(b"no name", 0)}, [], [], "has no name and was dropped"),
        ({(1, 0): arrival(request("r1"), 0), (1, 1): home(0, 1)}, [decision(0), decision(1)], [], "ended 2 times"),
    ],
)
def test_two_ends_and_none_are_seen(
    requests: Mapping[Any, Arrival], decisions: list[Seen], dead_letters: list[Seen], flaw: str
) -> None:
    (said,) = account._ends(requests, decisions, dead_letters)
    assert flaw in said


@pytest.mark.parametrize("numbers", [(2,), (1, 1), (1, 3), (2, 1)])
def test_numbers_that_are_missing_or_twice_are_seen(numbers: tuple[int, ...]) -> None:
    decisions = [decision(offset, number) for offset, number in enumerate(numbers)]
    assert list(account._numbers(decisions, 2)) == ["the decisions of partition 1 are not numbered one by one"]
    assert list(account._numbers([decision(0, 1), decision(1, 2)], 2)) == []


@pytest.mark.parametrize(
    ("verdict", "results", "work", "well"),
    [
        ("rejected", ["job0"], [], True),
        ("accepted", [], [WORK], True),
        ("accepted", [], [WORK, WORK], True),
        ("rejected", [], [], False),
        ("rejected", ["job0", "job0"], [], False),
        ("accepted", [], [], False),
        ("accepted", [], [WORK, b"other"], False),
        ("accepted", ["job0"], [WORK], False),
        ("rejected", ["job0", "job9"], [], False),
    ],
)
def test_events_and_work_are_those_of_the_decisions(
    monkeypatch: pytest.MonkeyPatch, verdict: str, results: list[str], work: list[bytes], well: bool
) -> None:
    body = {"offset": 0, "number": 1, "job_id": "job0", "verdict": verdict, "work": json.loads(WORK)}
    events = [Seen(1, 0, None, json.dumps({"job_id": each}).encode(), ()) for each in results]
    monkeypatch.setattr(account, "committed", lambda *_: events)
    monkeypatch.setattr(account, "work_of", lambda *_: [("t", Seen(0, 0, b"job0", each, ())) for each in work])
    nothing: Any = type("Catalogue", (), {"results": "r", "requests_partitions": 2})
    assert (list(account._events(nothing, nothing, [Seen(1, 0, None, json.dumps(body).encode(), ())])) == []) == well

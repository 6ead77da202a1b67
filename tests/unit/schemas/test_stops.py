"""Whom a pause or a drop reaches."""

from datetime import UTC, datetime

import pytest

from schemas.control import Pause, Subject
from schemas.stops import Dropped, drop_of, in_words, of_config, of_tenant, pause_of
from tests.unit.admission.scene import NOW_MS, config_file

SKETCH = config_file("sketch").versions[2]
EVERYTHING = (*of_tenant("blue"), *of_config(SKETCH))


def pause(until_ms: int | None = None) -> Pause:
    return Pause(until=None if until_ms is None else datetime.fromtimestamp(until_ms / 1000, UTC))


@pytest.mark.parametrize(
    "subject",
    [
        Subject("tenant", "blue"),
        Subject("config", "sketch"),
        Subject("config", "sketch@2"),
        Subject("pool", "default"),
    ],
    ids=str,
)
def test_a_request_is_reached_by_everything_that_it_is_of(subject: Subject) -> None:
    assert pause_of({subject: pause()}, EVERYTHING, NOW_MS) == (subject, pause())
    assert drop_of({subject: Dropped(NOW_MS)}, EVERYTHING, NOW_MS) == (subject, Dropped(NOW_MS))


@pytest.mark.parametrize(
    "subject",
    [Subject("tenant", "sketch"), Subject("config", "blue"), Subject("config", "sketch@1"), Subject("pool", "blue")],
    ids=str,
)
def test_another_is_not(subject: Subject) -> None:
    assert pause_of({subject: pause()}, EVERYTHING, NOW_MS) is None
    assert drop_of({subject: Dropped(NOW_MS)}, EVERYTHING, NOW_MS) is None


def test_a_pause_ends_by_itself() -> None:
    until = {Subject("tenant", "blue"): pause(NOW_MS)}
    assert pause_of(until, EVERYTHING, NOW_MS - 1) is not None
    assert pause_of(until, EVERYTHING, NOW_MS) is None
    assert pause_of({Subject("tenant", "blue"): pause()}, EVERYTHING, 10 * NOW_MS) is not None


def test_of_several_pauses_the_one_that_lasts_longest_is_told() -> None:
    of_blue, of_pool = Subject("tenant", "blue"), Subject("pool", "default")
    for longest in (pause(NOW_MS + 2000), pause()):
        for first, second in ((of_blue, of_pool), (of_pool, of_blue)):
            paused = {first: pause(NOW_MS + 1000), second: longest}
            assert pause_of(paused, EVERYTHING, NOW_MS) == (second, longest)


@pytest.mark.parametrize(("dropped_after_ms", "reached"), [(-1, False), (0, True), (1, True)])
def test_a_drop_reaches_what_is_not_younger(dropped_after_ms: int, reached: bool) -> None:
    dropped = {Subject("pool", "default"): Dropped(NOW_MS + dropped_after_ms)}
    assert (drop_of(dropped, EVERYTHING, NOW_MS) is not None) is reached


def test_a_subject_and_its_reason_are_said_in_words() -> None:
    assert (
        in_words(Subject("tenant", "blue"), "was dropped", "a leaked key") == "tenant 'blue' was dropped (a leaked key)"
    )
    assert in_words(Subject("pool", "h200"), "is paused", "") == "pool 'h200' is paused"

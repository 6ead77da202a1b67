"""An event changes only so that this release and earlier ones read each other's records, or under another version."""

import pytest

from tests.contract.shapes import Shapes, faults, shapes, written

CURE = "run python -m tests.contract.shapes, which takes what is new"


def test_no_event_has_changed_so_that_releases_misread_each_other() -> None:
    assert faults(written(), shapes()) == []


def test_every_field_is_written_down_so_that_it_is_held_to_from_now_on() -> None:
    before, now = written(), shapes()
    assert {path for path in now if now[path] != before.get(path)} == set(), CURE


def _event(**fields: str) -> Shapes:
    known = {f"Event.{name}": frozenset(facts.split(", ")) for name, facts in fields.items()}
    return {"Event": frozenset({"object", "required"})} | known


V1, V2 = "=1, integer", "=1, =2, integer"


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (_event(a="string"), _event(), "Event.a is gone"),
        (_event(a="string"), _event(a="required, string"), "earlier records lack it"),
        (_event(), _event(a="required, string"), "earlier records lack it"),
        (_event(a="required, string"), _event(a="string"), "an earlier reader cannot do without"),
        (_event(a="integer"), _event(a="string"), "no more integer"),
        (_event(a="null, string"), _event(a="string"), "no more null"),
        (_event(a="=x, =y, string"), _event(a="=x, string"), "no more =y"),
        (_event(a="integer, maximum 9"), _event(a="integer, maximum 8"), "may lie beyond it"),
        (_event(a="integer, minimum 0"), _event(a="integer, minimum 1"), "may lie beyond it"),
        (_event(a="string"), _event(a="maxLength 5, string"), "may lie beyond it"),
        (_event(a="pattern ^a$, string"), _event(a="pattern ^b$, string"), "may lie beyond it"),
        (_event(a="object"), _event(a="closed, object"), "may lie beyond it"),
        (_event(schema_version=V1), _event(schema_version="=2, integer"), "no more =1"),
    ],
)
def test_what_releases_would_misread_is_told(before: Shapes, now: Shapes, says: str) -> None:
    (fault,) = faults(before, now)
    assert says in fault


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (_event(), _event(a="string")),
        (_event(a="=x, string"), _event(a="=x, =y, string")),
        (_event(a="=x, string"), _event(a="string")),
        (_event(a="integer"), _event(a="integer, null")),
        (_event(a="integer, maximum 9, minimum 1"), _event(a="integer, maximum 10, minimum 0")),
        (_event(a="integer, maximum 9"), _event(a="integer")),
        (_event(schema_version=V1, a="required, string"), _event(schema_version=V2, a="string")),
    ],
)
def test_what_every_release_reads_is_not(before: Shapes, now: Shapes) -> None:
    assert faults(before, now) == []

"""The table of docs/autoscaling.md: what KEDA sees through the life of a group. The test holds KEDA to it."""

from pathlib import Path
from typing import NamedTuple

_PAGE = Path(__file__).parents[2] / "docs" / "autoscaling.md"
_HEAD = "| what has happened |"


class Row(NamedTuple):
    """`lanes`: the values of the three triggers, interactive first; `value`: their sum, which the HPA gets, and
    `replicas` what it makes of it. `by_seconds`: what it makes of our own scaler's."""

    happened: str
    lanes: tuple[int, int, int]
    value: int
    active: bool
    replicas: int
    by_seconds: int


def rows() -> list[Row]:
    lines = iter(_PAGE.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(_HEAD):
            break
    next(lines)  # the rule below the head
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        happened, *lanes, value, active, replicas, by_seconds = [cell.strip() for cell in line.strip("|").split("|")]
        interactive, standard, bulk = map(int, lanes)
        assert active in {"yes", "no"}, line
        found.append(
            Row(happened, (interactive, standard, bulk), int(value), active == "yes", int(replicas), int(by_seconds))
        )
    assert found, f"{_PAGE.name} has no table of the life"
    return found

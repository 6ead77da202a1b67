"""What was accepted, as lines of a trace."""

from datetime import UTC, datetime

import pytest

from infra.planner.arrivals import Period
from schemas.codec import encode
from schemas.decision import Decision, Route
from tests.unit.schemas.test_work import WORK

AT_MS = 1_896_090_300_123  # 900 s before the deadline of WORK
EVER = Period(0, 1e15, None)


def decision(**changes: object) -> Decision:
    made = Decision(
        number=1, tenant="alice", request_id="r/1", job_id=WORK.job_id, verdict="accepted", payload_digest="d",
        offset=0, appended_ms=AT_MS, route=Route(pool="fast", lane="bulk", partition=3), work=encode(WORK).decode(),
    )  # fmt: skip
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_line_has_what_a_replay_needs_and_no_prompt() -> None:
    assert WORK.deadline == datetime.fromtimestamp(AT_MS / 1000 + 900, UTC)
    assert EVER.row(decision()) == ("1896090300.123", "sketch@1", 2, "alice", "bulk", "900.000")


def test_what_was_asked_for_counts_where_a_cheaper_one_stood_in() -> None:
    row = EVER.row(decision(work=encode(WORK.model_copy(update={"degraded_from": "painting@2"})).decode()))
    assert row is not None
    assert row[1] == "painting@2"


@pytest.mark.parametrize(
    ("period", "changes"),
    [
        (EVER, {"verdict": "rejected", "route": None, "work": None}),
        (Period(0, 1e15, "slow"), {}),
        (Period(AT_MS + 1, 1e15, None), {}),
        (Period(0, AT_MS, None), {}),
    ],
    ids=["refused", "another pool", "earlier", "later"],
)
def test_other_decisions_have_none(period: Period, changes: dict[str, object]) -> None:
    assert period.row(decision(**changes)) is None
    assert Period(AT_MS, AT_MS + 1, "fast").row(decision()) is not None

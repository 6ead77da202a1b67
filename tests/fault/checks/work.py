"""Work is what was decided: the same bytes, on the one partition of its decision, for every accepted request."""

from collections.abc import Iterator
from typing import Any

from tests.fault.account import Account
from tests.fault.checks.reading import readable
from tests.fault.history import Flaw, History, Record


def check_work(history: History, account: Account) -> Iterator[Flaw]:
    """Undecided, with other bytes, on another partition, never produced, or produced for what was refused."""
    decided: dict[str, tuple[Record, dict[str, Any]]] = {
        str(body.get("job_id")): (record, body) for record, body in readable(history.decisions)
    }
    produced: set[str] = set()
    for record in history.work:
        job = (record.key or b"").decode("utf-8", "replace")
        if job not in decided:
            yield Flaw("work_undecided", f"{record.at} is work of job {job!r}, which no decision names")
            continue
        decision = decided[job][1]
        if decision.get("verdict") != "accepted":
            yield Flaw("work_of_refused", f"{record.at}: {decided[job][0].at} says {decision.get('verdict')}")
            continue
        produced.add(job)
        route = decision.get("route") or {}
        topic_ending = f".work.{route.get('pool')}.{route.get('lane')}"
        if record.partition != route.get("partition") or not record.topic.endswith(topic_ending):
            yield Flaw("work_misrouted", f"{record.at} of job {job}; its decision routes it to {route}")
        if record.value != _work_text(decided[job][0]):
            yield Flaw("work_differs", f"{record.at} is not what {decided[job][0].at} decided: {record.value!r}")
    for job, (record, body) in decided.items():
        if body.get("verdict") == "accepted" and job not in produced:
            yield Flaw("work_missing", f"{record.at} accepts job {job}, and no work was produced")


def _work_text(decision: Record) -> bytes:
    """As it stands in the decision, which ends with it."""
    _, _, text = (decision.value or b"").partition(b'"work":')
    return text.strip()[:-1]

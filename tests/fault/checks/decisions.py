"""One decision a request, about the record that counts, numbered without a gap, and kept by the event."""

from collections.abc import Iterator
from typing import Any

from schemas.decision import HEADER_NUMBER
from tests.fault.account import Account
from tests.fault.checks.reading import Unreadable, body_of, name_of, readable
from tests.fault.history import Flaw, History, Name, Record


def check_decisions(history: History, account: Account) -> Iterator[Flaw]:
    """Twice, missing, about another record, out of order, or contradicted by the event."""
    decided: dict[Name, tuple[Record, dict[str, Any]]] = {}
    numbers: dict[int, int] = {}
    for record in history.decisions:
        try:
            body = body_of(record)
        except Unreadable as error:
            yield Flaw("decision_unreadable", str(error))
            continue
        name = name_of(body)
        expected = numbers.get(record.partition, 0) + 1
        if body.get("number") != expected or record.header(HEADER_NUMBER) != str(expected):
            yield Flaw("decision_number", f"{record.at} is number {body.get('number')}, due is {expected}")
        numbers[record.partition] = expected
        if name in decided:
            yield Flaw("decided_twice", f"{name}: {decided[name][0].at} and {record.at}")
            continue
        decided[name] = record, body
        if record.key != "/".join(name).encode():
            yield Flaw("decision_key", f"{record.at} of {name} has the key {record.key!r}")
        request = account.first.get(name)
        if request is None:
            yield Flaw("decision_from_nowhere", f"{record.at} decides {name}, which was never asked for")
        elif (record.partition, body.get("offset")) != request[0].place:
            yield Flaw("decided_another", f"{record.at} decides offset {body.get('offset')}; due is {request[0].at}")
    for name, (request_record, _) in account.first.items():
        if name not in decided:
            yield Flaw("decision_missing", f"{name} of {request_record.at}")
    for record, body in readable(history.results):
        decision = decided.get(name_of(body))
        if decision is not None and not _agrees(decision[1], body):
            yield Flaw(
                "event_against_decision",
                f"{name_of(body)}: {decision[0].at} says {decision[1].get('verdict')} {decision[1].get('code')} of job "
                f"{decision[1].get('job_id')}, {record.at} says {body.get('status')} {body.get('code')} of job "
                f"{body.get('job_id')}",
            )


def _agrees(decision: dict[str, Any], event: dict[str, Any]) -> bool:
    if decision.get("job_id") != event.get("job_id"):
        return False
    match decision.get("verdict"):
        case "rejected":
            return event.get("status") == "rejected" and event.get("code") == decision.get("code")
        case "cancelled":
            return bool(event.get("status") == "cancelled")
        case "accepted":
            return event.get("status") in {"succeeded", "failed", "cancelled", "expired"}
        case _:
            return False

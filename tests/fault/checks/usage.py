"""Each decision and each result counts once: the accounts that admission keeps, summed again from the events."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.fault.account import Account
from tests.fault.checks.reading import Unreadable, body_of, readable
from tests.fault.history import Flaw, History, Record

_CURSOR = b"\x00cursor"
_COUNTS = ("accepted", "rejected", "cancelled", "finished", "dropped", "gpu_seconds")
_ROUNDING_SECONDS = 1e-6


def check_usage(history: History, account: Account) -> Iterator[Flaw]:
    """What an account says, beside what was decided and what ended up to the result that admission read last."""
    del account
    newest = _newest(history.tenants)
    read_through = {at: body.get("results_next", 0) for (at, key), body in newest.items() if key == _CURSOR}
    told = {
        (key or b"").decode("utf-8", "replace"): body
        for (_, key), body in newest.items()
        if key is not None and not key.startswith(b"\x00")
    }
    due = _due(history, read_through)
    for tenant in sorted(due.keys() | {name for name in told if "/" not in name}):
        said, must = told.get(tenant), due.get(tenant, Counter[str]())
        if said is None:
            yield Flaw("usage_missing", f"{tenant} has no account; it should say {dict(must)}")
            continue
        for count in _COUNTS:
            if abs(said.get(count, 0) - must[count]) > _ROUNDING_SECONDS:
                yield Flaw("usage_differs", f"{tenant} has {count} {said.get(count, 0)}; the events say {must[count]}")


def _newest(records: Sequence[Record]) -> dict[tuple[int, bytes | None], dict[str, Any]]:
    newest: dict[tuple[int, bytes | None], dict[str, Any]] = {}
    for record in records:
        newest.pop((record.partition, record.key), None)
        if record.value is None:
            continue
        try:
            newest[record.partition, record.key] = body_of(record)
        except Unreadable:
            continue
    return newest


def _due(history: History, read_through: dict[int, int]) -> dict[str, Counter[str]]:
    due: dict[str, Counter[str]] = {}
    accepted: set[str] = set()
    for _, body in readable(history.decisions):
        tenant = str(body.get("tenant"))
        if tenant in history.limits:
            due.setdefault(tenant, Counter())[str(body.get("verdict"))] += 1
            if body.get("verdict") == "accepted":
                accepted.add(str(body.get("job_id")))
    for record, body in readable(history.results):
        if record.offset < read_through.get(record.partition, 0) and body.get("job_id") in accepted:
            accepted.discard(str(body["job_id"]))
            counts = due[str(body.get("tenant"))]
            counts["finished"] += 1
            counts["gpu_seconds"] += body.get("gpu_seconds", 0.0)
    return due

"""Exactly one terminal event a request, none contradicting, each of them explained by the request."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.fault.account import Account, home_of
from tests.fault.checks.reading import Unreadable, body_of, end_of, name_of
from tests.fault.history import Flaw, History, Meaning, Name, Record

_RAN = {"succeeded", "failed"}


def check_events(history: History, account: Account) -> Iterator[Flaw]:
    """Missing, twice, contradicting, from nowhere, on the wrong partition, or not what was asked for."""
    events: dict[Name, list[tuple[Record, dict[str, Any]]]] = defaultdict(list)
    for record in history.results:
        try:
            body = body_of(record)
        except Unreadable as error:
            yield Flaw("event_unreadable", str(error))
            continue
        events[name_of(body)].append((record, body))
    for name, (request, _) in account.first.items():
        if not events.get(name):
            yield Flaw("event_missing", f"{name} of {request.at} never ended")
    for name, found in events.items():
        ends = [end_of(body) for _, body in found]
        where = ", ".join(f"{record.at} {end}" for (record, _), end in zip(found, ends, strict=True))
        if name not in account.first:
            yield Flaw("event_from_nowhere", f"{name} was never asked for: {where}")
            continue
        if len(found) > 1:
            yield Flaw("event_twice", f"{name}: {where}")
        if len({(end, body.get("job_id")) for end, (_, body) in zip(ends, found, strict=True)}) > 1:
            yield Flaw("event_contradicts", f"{name}: {where}")
        for record, body in found:
            yield from _explained(name, record, body, account.first[name][1])
            if record.partition != home_of(name[0], history) or record.key != name[0].encode():
                yield Flaw("event_misplaced", f"{name}: {record.at} under the key {record.key!r}")


def _explained(name: Name, record: Record, body: dict[str, Any], meaning: Meaning) -> Iterator[Flaw]:
    end = end_of(body)
    if end not in meaning.ends:
        yield Flaw("event_unexplained", f"{name} ended as {end} ({body.get('message')}); right: {sorted(meaning.ends)}")
    asked = meaning.body
    for field in ("metadata", "retry_of") if body.get("status") != "rejected" else ():
        if body.get(field) != asked.get(field) and (body.get(field) or asked.get(field)):
            yield Flaw("event_differs", f"{name} {record.at}: {field} is {body.get(field)!r}, not {asked.get(field)!r}")
    if end == "expired":
        deadline, finished = _moment(asked.get("deadline")), _moment(body.get("finished_at"))
        if deadline is None or finished is None or finished < deadline:
            yield Flaw("expired_early", f"{name} expired at {finished}, its deadline was {deadline}")
    if body.get("status") in _RAN:
        config = body.get("config", {})
        if config.get("name") != asked.get("config", {}).get("name"):
            yield Flaw("event_differs", f"{name} {record.at} ran with the config {config.get('name')!r}")
    if end == "succeeded":
        pictures = body.get("artifacts", [])
        if len(pictures) != asked.get("images", 1):
            yield Flaw("event_differs", f"{name} {record.at}: {len(pictures)} picture(s) of {asked.get('images', 1)}")
        if asked.get("seed") is not None and body.get("seed") != asked["seed"]:
            yield Flaw("event_differs", f"{name} {record.at}: seed {body.get('seed')}, not {asked['seed']}")
        seeds = [picture.get("seed") for picture in pictures]
        if seeds != [body.get("seed", 0) + k for k in range(len(pictures))]:
            yield Flaw("event_differs", f"{name} {record.at}: pictures drawn with the seeds {seeds}")


def _moment(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None

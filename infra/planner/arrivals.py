"""`kiln arrivals`: what was accepted and when, as a trace for `kiln plan`. Neither prompts nor names of requests."""

import csv
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from aiokafka import TopicPartition
from rich.console import Console

from infra.planner.trace import COLUMNS
from schemas.counted import counted
from schemas.decision import Decision, decode_decision
from schemas.errors import CommandError, SchemaError
from schemas.topics import Catalogue
from schemas.work import decode_work
from streams.commands.common import deployment, run
from streams.kafka.admin import require_topics
from streams.kafka.bisect import first_needed
from streams.kafka.log import Record, read_log
from streams.kafka.settings import KafkaSettings

_COLUMNS = tuple(each for each in COLUMNS if each not in ("seconds", "model"))  # the configurations say them
_SLACK_MS = 3_600_000  # records lie nearly in the order of their times
_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ")


def arrivals(
    path: Annotated[Path, typer.Argument(help="CSV to write.")],
    pool: Annotated[str | None, typer.Option(help="Of this pool only.", show_default="all")] = None,
    since: Annotated[
        datetime | None, typer.Option(formats=_FORMATS, help="UTC.", show_default="all that is retained")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(formats=_FORMATS, help="UTC, before it.", show_default="now")
    ] = None,
) -> None:
    """Write what admission accepted, one line a request, from the decisions that are retained."""
    begin = datetime.fromtimestamp(0, UTC) if since is None else since.replace(tzinfo=UTC)
    end = datetime.now(UTC) if until is None else until.replace(tzinfo=UTC)
    if begin >= end:
        raise CommandError("--since is not before --until; name a period")
    kafka, catalogue = deployment()
    if pool is not None and pool not in catalogue.pools:
        raise CommandError(f"there is no pool {pool!r}; there are: {', '.join(sorted(catalogue.pools))}")
    period = Period(begin.timestamp() * 1000, end.timestamp() * 1000, pool)
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(_COLUMNS)
            seen = run(_read(kafka, catalogue, period, rows.writerow))
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror}); name another file") from error
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{path} has {counted(seen[True], 'request')}; refused in that time, and not in it: {seen[False]:,}.")


@dataclass(frozen=True, slots=True)
class Period:
    """Of the requests' times; and the pool, None for any."""

    since_ms: float
    until_ms: float
    pool: str | None

    def row(self, decision: Decision) -> tuple[object, ...] | None:
        """The line of a trace; None: it was not accepted, or is of another time or pool."""
        route, work = decision.route, decision.work
        if not self.has(decision) or route is None or work is None or self.pool not in (None, route.pool):
            return None
        item = decode_work(work.encode())
        seconds, asked = decision.appended_ms / 1000, item.degraded_from or item.config.label
        deadline = max(0.0, item.deadline.timestamp() - seconds)
        return f"{seconds:.3f}", asked, item.images, item.tenant, item.lane, f"{deadline:.3f}"

    def has(self, decision: Decision) -> bool:
        return self.since_ms <= decision.appended_ms < self.until_ms


async def _read(
    kafka: KafkaSettings, catalogue: Catalogue, period: Period, write: Callable[[tuple[object, ...]], object]
) -> Counter[bool]:
    """How many were accepted and how many refused. Raises StreamError, KafkaError."""
    await require_topics(kafka, [catalogue.decisions])
    places = [TopicPartition(catalogue.decisions, index) for index in range(catalogue.requests_partitions)]

    def earlier(record: Record) -> bool:
        return bool(record.timestamp < period.since_ms - _SLACK_MS)

    start = {place: await first_needed(kafka, place, earlier) for place in places}
    seen: Counter[bool] = Counter()
    async with aclosing(read_log(kafka, places, start=start)) as records:
        async for record in records:
            try:
                decision = decode_decision(record.value or b"")
                row = period.row(decision)
            except SchemaError:
                continue  # another than us wrote it, or a newer release
            if row is not None:
                seen[True] += 1
                write(row)
            elif decision.verdict == "rejected" and period.has(decision):
                seen[False] += 1
    return seen

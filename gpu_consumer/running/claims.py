"""Marks: what is about to run is written to the ledger before, and what came of it after. All indexes at once."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.clock import Clock
from gpu_consumer.index import Change, Index, mark, unmark
from gpu_consumer.ledger import Ledger, Mark
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler
from schemas.request import Lane
from streams.kafka.errors import LeaseVoid

_LOG = logging.getLogger(__name__)


class Claims:
    """For one loop. An index that is lost on the way is void afterwards; no call raises for that."""

    def __init__(
        self,
        settings: GpuConsumerSettings,
        backlog: Backlog,
        settler: Settler,
        outcomes: Outcomes,
        clock: Clock,
        *,
        incarnation: str,
    ) -> None:
        self._settings = settings
        self._backlog = backlog
        self._settler = settler
        self._outcomes = outcomes
        self._clock = clock
        self._incarnation = incarnation
        self._until_ms: dict[Job, int] = {}
        self._closed = False

    async def claim(self, jobs: Sequence[Job], seconds: float) -> None:
        """Mark what is about to run and is not marked yet, but for what has an outcome already: that is settled.

        `seconds`: until all of them are expected to have ended.
        """
        new = [job for job in jobs if job not in self._until_ms]
        for job, outcome in zip(new, await self._outcomes.lookup([job.id for job in new]), strict=True):
            if outcome is not None and not job.index.void and self._backlog.runs(job):
                job.running = 0
                self._settler.stored(job, outcome)
        await self._mark([job for job in new if job.running], seconds)

    async def renew(self, seconds: float) -> None:
        """Mark anew what runs for longer than was expected, so that a successor still waits for it."""
        now_ms = self._clock.wall_ms()
        if late := [job for job, until_ms in self._until_ms.items() if until_ms <= now_ms]:
            for job in late:
                del self._until_ms[job]
            await self._mark([job for job in late if job.running], seconds)

    def marked(self, job: Job) -> bool:
        """Does whoever owns its index now wait for us?"""
        return job in self._until_ms

    def renew_at(self) -> float | None:
        """Of the steady clock."""
        return self._clock.steady_of(min(self._until_ms.values())) if self._until_ms else None

    def forget(self, job: Job) -> None:
        """It ends, and its mark with it."""
        self._until_ms.pop(job, None)

    async def give_back(self, jobs: Iterable[Job]) -> None:
        """These did not end, and it was nobody's fault."""
        await self._write(jobs, lambda job: unmark(job.lane, job.offset))

    async def died(self, jobs: Iterable[Job], charged: Collection[Job]) -> None:
        """An engine died with the jobs inside; those of them that are charged may be at fault."""
        await self._write(jobs, lambda job: _charge(job) if job in charged else unmark(job.lane, job.offset))

    def close(self) -> None:
        """Mark nothing from here on: what was marked is handed back."""
        self._closed = True

    async def hand_over(self, index: Index, stays: Callable[[Job], bool]) -> list[Job]:
        """Of an index that goes to another consumer: clear our marks of all but what `stays`, as the last that is
        written to it. Returns the jobs whose marks are cleared; none where the next owner was quicker than that.
        """
        jobs = {(job.lane, job.offset): job for job in self._backlog.of(index)}
        gone: list[Job] = []

        def keeps(lane: Lane, offset: int) -> bool:
            job = jobs.get((lane, offset))
            if job is None or self._backlog.jobs.get(job.id) is not job:
                return False
            if stays(job):
                return True
            gone.append(job)
            return False

        try:
            await index.hand_back(self._incarnation, keeps)
        except LeaseVoid as error:
            _LOG.info("the marks of index %d stay until their time: %s", index.number, error)
            return []
        return gone

    async def _mark(self, jobs: Sequence[Job], seconds: float) -> None:
        if self._closed:
            return
        now_ms = self._clock.wall_ms()
        until_ms = now_ms + int(1000 * max(self._settings.mark_seconds_min, self._settings.mark_factor * seconds))
        marked = await self._write(jobs, lambda job: mark(job.lane, job.offset, self._next_mark(job, now_ms, until_ms)))
        self._until_ms.update(dict.fromkeys(marked, until_ms))

    def _next_mark(self, job: Job, now_ms: int, until_ms: int) -> Mark:
        before = job.index.ledger(job.lane).marks.get(job.offset, Mark("", now_ms, now_ms))
        return before.taken_over(self._incarnation, now_ms, until_ms)

    async def _write(self, jobs: Iterable[Job], change: Callable[[Job], Change]) -> list[Job]:
        """The jobs whose change is committed."""
        by_index: dict[Index, list[Job]] = defaultdict(list)
        for job in jobs:
            if not job.index.void:
                by_index[job.index].append(job)
        written = await asyncio.gather(
            *(self._settler.write(index, [change(job) for job in each]) for index, each in by_index.items())
        )
        return [job for done, each in zip(written, by_index.values(), strict=True) if done for job in each]


def _charge(job: Job) -> Change:
    def edit(ledger: Ledger) -> None:
        # A drain may have handed it back meanwhile: the death counts all the same.
        before = ledger.marks.get(job.offset, Mark("", 0, 0))
        ledger.marks[job.offset] = before.engine_died()

    return Change(job.lane, edit)

"""Marks: what is about to run is written to the ledger before, and what came of it after. All indexes at once."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.clock import Clock
from gpu_consumer.index import Change, Index, mark, unmark
from gpu_consumer.ledger import Ledger, Mark
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler


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
            await self._mark([job for job in late if job.running], seconds)
            for job in late:
                if not job.running or job.index.void:
                    self._until_ms.pop(job, None)

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

    async def _mark(self, jobs: Sequence[Job], seconds: float) -> None:
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

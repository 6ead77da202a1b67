"""What runs: one batch at a time. A free engine comes first, then the choice, then the marks, then the run.

While a batch is stored and settled, the next one runs. An engine's death is charged to the batch that ran and no other,
so short batches may be marked together.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress

from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.clock import Clock
from gpu_consumer.engine.protocol import Batch, Engine, EngineDied, Finished, Item
from gpu_consumer.index import Change, Index, mark, unmark
from gpu_consumer.keeper import EngineKeeper
from gpu_consumer.ledger import Ledger, Mark
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.scheduler import Chosen, Unit
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0  # how soon the death of an engine that has nothing to do is noticed
_LEARNING = 0.3  # of the newest run, in the expected run time of a configuration


class Runner:
    """For one task: `run`."""

    def __init__(
        self,
        settings: GpuConsumerSettings,
        engine: Engine,
        backlog: Backlog,
        settler: Settler,
        outcomes: Outcomes,
        metrics: GpuMetrics,
        clock: Clock,
        *,
        incarnation: str,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._backlog = backlog
        self._settler = settler
        self._outcomes = outcomes
        self._metrics = metrics
        self._clock = clock
        self._incarnation = incarnation
        self._changed = backlog.listen()
        self._expected: dict[str, float] = {}  # config hash -> seconds of a batch
        self._number = 0
        self._stopping = False
        self._keeper = EngineKeeper(settings, engine, metrics, clock)
        self.running: tuple[Job, ...] = ()

    @property
    def restarting(self) -> str | None:
        """Why the engine is being started again, while it is."""
        return self._keeper.restarting

    def stop(self) -> None:
        """Let `run` return after the batch under way."""
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Raises EngineUnusable."""
        while chosen := await self._choose():
            for each in await self._claim(chosen):
                if not self._stopping and (units := self._of_ours(each.units)):
                    await self._execute(each, units)

    async def _choose(self) -> list[Chosen]:
        """Wait until a batch may go, and take with it those that follow within a moment. Empty: no more batches."""
        while not self._stopping:
            if not self._engine.alive:
                _LOG.error("the engine ended while it had nothing to do")
                await self._keeper.restart("it ended while it had nothing to do")
            await self._outcomes.available()
            self._changed.clear()
            now = self._clock.steady()
            if chosen := self._take(now):
                return chosen
            wake = self._backlog.scheduler.next_batch(now)
            # A batch that could go and did not waits for room, which is told as a change.
            wait = _LOOK_SECONDS if wake is None or wake <= now else min(wake - now, _LOOK_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()
        return []

    def _take(self, now: float) -> list[Chosen]:
        chosen: list[Chosen] = []
        seconds = 0.0
        room = self._settings.settling_max - self._backlog.count("settling")
        while room > 0 and len(chosen) < self._settings.claim_batches_max and seconds <= self._settings.claim_seconds:
            batch = self._backlog.scheduler.take(now)
            if batch is None:
                break
            chosen.append(batch)
            room -= len(batch.units)
            seconds += self._expected_seconds(batch)
        return chosen

    async def _claim(self, chosen: Sequence[Chosen]) -> Sequence[Chosen]:
        """Mark what is about to run, but for what has an outcome already or is of an index that was lost."""
        jobs = {unit.job: self._backlog.jobs[unit.job] for batch in chosen for unit in batch.units}
        for batch in chosen:
            for unit in batch.units:
                jobs[unit.job].running += 1
        for job, outcome in zip(jobs.values(), await self._outcomes.lookup(list(jobs)), strict=True):
            if outcome is not None and not job.index.void:
                job.running = 0
                self._settler.stored(job, outcome)
        now_ms = self._clock.wall_ms()
        seconds = self._settings.mark_factor * sum(map(self._expected_seconds, chosen))
        until_ms = now_ms + int(1000 * max(self._settings.mark_seconds_min, seconds))
        await self._write(
            [job for job in jobs.values() if job.running],
            lambda job: mark(job.lane, job.offset, self._next_mark(job, now_ms, until_ms)),
        )
        return chosen

    def _of_ours(self, units: Sequence[Unit]) -> list[Unit]:
        """The units that are to run: those whose job was not settled or lost since it was chosen, and is in time."""
        ours = []
        now = self._clock.steady()
        for unit in units:
            job = self._backlog.jobs.get(unit.job)
            if job is None or not job.running:
                continue
            if job.deadline <= now:
                self._settler.due(job.id)
            if job.index.void:
                job.running = 0
                self._settler.end(job)
            elif job.flaw is None and job.verdict is None:
                ours.append(unit)
            else:
                job.running -= 1
                self._settler.end(job)
        return ours

    def _next_mark(self, job: Job, now_ms: int, until_ms: int) -> Mark:
        before = job.index.ledger(job.lane).marks.get(job.offset, Mark("", now_ms, now_ms))
        return before.taken_over(self._incarnation, now_ms, until_ms)

    def _expected_seconds(self, batch: Chosen) -> float:
        item = self._backlog.jobs[batch.units[0].job].work.item
        assert item is not None, "only what can be read runs"
        return self._expected.get(batch.config_hash, item.config.price.gpu_seconds * len(batch.units))

    async def _execute(self, chosen: Chosen, units: Sequence[Unit]) -> None:
        jobs = list({unit.job: self._backlog.jobs[unit.job] for unit in units}.values())
        self._number += 1
        first = jobs[0].work.item
        assert first is not None
        self._note_start(chosen, jobs, len(units), first.config.bucket)
        began = self._clock.steady()
        try:
            finished = await self._engine.run(Batch(self._number, first.config, tuple(map(self._item, units))))
        except EngineDied as error:
            self.running = ()
            await self._engine_died(error, jobs, units)
        except ModelUnavailable as error:
            self.running = ()
            await self._model_unavailable(error, first.config.model_key, jobs)
        else:
            self.running = ()
            seconds = self._clock.steady() - began
            known = self._expected.get(chosen.config_hash, seconds)
            self._expected[chosen.config_hash] = known + _LEARNING * (seconds - known)
            self._settler.model_available(first.config.model_key)
            self._absorb(finished, units)
        self._metrics.set("in_flight_jobs", 0)

    def _item(self, unit: Unit) -> Item:
        item = self._backlog.jobs[unit.job].work.item
        assert item is not None
        return Item(_key(unit), item.prompt, item.negative_prompt, item.seed + unit.n)

    def _note_start(self, chosen: Chosen, jobs: Sequence[Job], pictures: int, bucket: int) -> None:
        self.running = tuple(jobs)
        self._metrics.set("in_flight_jobs", len(jobs))
        self._metrics.observe("batch_fill_ratio", pictures / bucket)
        self._metrics.observe("batch_wait_seconds", chosen.waited_seconds)
        now = self._clock.now()
        for job in jobs:
            if not job.started and job.work.item is not None:
                job.started = True
                wait = max(0.0, (now - job.work.item.accepted_at).total_seconds())
                job.run.timings["wait"] = wait
                self._metrics.observe("job_wait_seconds", wait, lane=job.lane)

    def _absorb(self, finished: Finished, units: Sequence[Unit]) -> None:
        pictures = {picture.key: picture for picture in finished.pictures}
        flaws = {flaw.key: flaw for flaw in finished.flaws}
        mine: dict[Job, int] = defaultdict(int)
        for unit in units:
            job = self._backlog.jobs[unit.job]
            mine[job] += 1
            job.running -= 1
            if (picture := pictures.get(_key(unit))) is not None:
                job.pictures[unit.n] = picture
            else:
                job.flaw = flaws[_key(unit)]
        self._note_end(finished, mine, len(units))
        for job in mine:
            if job.flaw is not None:
                self._backlog.scheduler.discard(job.id)  # a job fails as a whole: no more GPU time for it
            self._settler.end(job)

    def _note_end(self, finished: Finished, mine: dict[Job, int], pictures: int) -> None:
        self._metrics.count("batches_total")
        self._metrics.count("pictures_total", pictures)
        self._metrics.set("peak_vram_bytes", finished.peak_vram_bytes)
        if finished.timings.get("load"):
            self._metrics.count("model_loads_total")
        for stage, seconds in finished.timings.items():
            self._metrics.observe("stage_seconds", seconds, stage=stage)
        for job, own in mine.items():
            job.run.add(finished, own, pictures)
            if job.work.names is not None:
                share = finished.gpu_seconds * own / pictures
                self._metrics.count("gpu_seconds_total", share, tenant=job.work.names.tenant)

    async def _engine_died(self, error: EngineDied, jobs: Sequence[Job], units: Sequence[Unit]) -> None:
        """Charge what ran, before anything else can happen to this process; then start again."""
        _LOG.error("the engine died with %d pictures: %s", len(units), error)
        await self._write(jobs, lambda job: _charge(job) if error.running else unmark(job.lane, job.offset))
        self._return(jobs)
        await self._keeper.restart(str(error))

    async def _model_unavailable(self, error: ModelUnavailable, model_key: str, jobs: Sequence[Job]) -> None:
        _LOG.error("held until it is there: %s", error)
        await self._write(jobs, lambda job: unmark(job.lane, job.offset))
        self._settler.model_unavailable(model_key, str(error))
        self._return(jobs)

    def _return(self, jobs: Sequence[Job]) -> None:
        """Give back what had a slot. Its other pictures leave the queue too, to be queued again as the job now is."""
        for job in jobs:
            job.running = 0
            self._backlog.scheduler.discard(job.id)
            if job.index.void or job.ended:
                self._settler.end(job)
            else:
                self._settler.place(job)

    async def _write(self, jobs: Sequence[Job], change: Callable[[Job], Change]) -> None:
        """One change a job, all indexes at once. An index that is lost on the way is void afterwards."""
        by_index: dict[Index, list[Change]] = defaultdict(list)
        for job in jobs:
            if not job.index.void:
                by_index[job.index].append(change(job))
        await asyncio.gather(*(self._settler.write(index, changes) for index, changes in by_index.items()))


def _key(unit: Unit) -> str:
    return f"{unit.job}/{unit.n}"


def _charge(job: Job) -> Change:
    def edit(ledger: Ledger) -> None:
        ledger.marks[job.offset] = ledger.marks[job.offset].engine_died()

    return Change(job.lane, edit)

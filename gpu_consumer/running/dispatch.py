"""From the backlog into the engine: room first, then the choice, then the marks, then the engine.

A claim (look up, mark) is a task beside the runner, so that the engine's words are heard meanwhile. One at a time: what
is sent joins in the order in which it was chosen.
"""

import asyncio
from collections.abc import Callable, Sequence

from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.clock import Clock
from gpu_consumer.engine.protocol import Batch, Engine, Item
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.running.absorb import Absorber
from gpu_consumer.running.claims import Claims
from gpu_consumer.running.inside import Flight, Inside
from gpu_consumer.scheduling.scheduler import Chosen
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler


class Dispatcher:
    """For one task. `claimed` is called when a claim has ended."""

    def __init__(
        self,
        settings: GpuConsumerSettings,
        engine: Engine,
        inside: Inside,
        backlog: Backlog,
        claims: Claims,
        absorber: Absorber,
        settler: Settler,
        metrics: GpuMetrics,
        clock: Clock,
        *,
        claimed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._inside = inside
        self._backlog = backlog
        self._claims = claims
        self._absorber = absorber
        self._settler = settler
        self._metrics = metrics
        self._clock = clock
        self._on_claimed = claimed
        self._claiming: asyncio.Task[None] | None = None
        self._chosen: list[list[Flight]] = []  # of the claim under way

    @property
    def claiming(self) -> bool:
        """A claim is under way, or not sent yet."""
        return self._claiming is not None

    def choose(self) -> None:
        """Begin a claim of what there is room for, if there is anything and none is under way."""
        if self._claiming is not None:
            return
        now, scheduler = self._clock.steady(), self._backlog.scheduler
        while True:
            limit = self._settings.settling_max - self._backlog.count("settling") - len(self._inside)
            room = self._inside.room(limit)
            batch = scheduler.take(now, room) if room is not None else None
            if batch is None and (room := self._inside.room_after(limit)) is not None:
                batch = scheduler.take(now, room)
            if batch is None:
                break
            self._chosen.append(self._take(batch))
        if self._chosen:
            jobs = list(dict.fromkeys(flight.job for flights in self._chosen for flight in flights))
            self._claiming = asyncio.create_task(self._claims.claim(jobs, self._inside.seconds), name="claim")
            self._claiming.add_done_callback(lambda _: self._on_claimed())

    async def send(self, *, stopping: bool) -> None:
        """Send what was claimed, if the claim has ended. Raises EngineDied."""
        if self._claiming is None or not self._claiming.done():
            return
        for flights in self._end():
            by_config: dict[str, list[Flight]] = {}
            for flight in flights:
                if not self._may_run(flight, stopping=stopping):
                    self._drop(flight)
                else:
                    by_config.setdefault(flight.unit.config_hash, []).append(flight)
            for each in by_config.values():
                for flight in each:
                    flight.sent = True
                await self._engine.submit(_batch(each))

    async def abandon(self) -> None:
        """Wait for the claim under way, if there is one; nothing of it is sent."""
        if self._claiming is not None:
            await asyncio.wait({self._claiming})
            self._end()

    def close(self) -> None:
        if self._claiming is not None:
            self._claiming.cancel()

    def _take(self, batch: Chosen) -> list[Flight]:
        self._metrics.observe("batch_wait_seconds", batch.waited_seconds)
        flights = [Flight(unit, self._backlog.jobs[unit.job]) for unit in batch.units]
        for flight in flights:
            flight.job.running += 1
            self._inside.add(flight)
        return flights

    def _end(self) -> list[list[Flight]]:
        """Raises what the claim raised: a bug of ours."""
        assert self._claiming is not None
        self._claiming.result()
        self._claiming = None
        chosen, self._chosen = self._chosen, []
        return chosen

    def _may_run(self, flight: Flight, *, stopping: bool) -> bool:
        """Its job was not settled, decided or lost since it was chosen."""
        job = flight.job
        if not self._backlog.runs(job) or flight.leaving or job.decided:
            return False
        return self.is_waited_for(job) if job.index.void else not stopping

    def is_waited_for(self, job: Job) -> bool:
        """Its index moved away after it was marked, and the next owner had fenced us before that could be taken back.
        That one waits for what we store, so we make it; unless part of it will not be made here.
        """
        return job.index.void and self._claims.marked(job) and self._inside.holds_all(job)

    def _drop(self, flight: Flight) -> None:
        """It was claimed and is not to run."""
        ran = self._backlog.runs(flight.job)
        self._absorber.lose(flight)
        if ran and not flight.job.running:
            self._claims.forget(flight.job)
            self._settler.end(flight.job)


def _batch(flights: Sequence[Flight]) -> Batch:
    items = []
    for flight in flights:
        work = flight.job.item
        items.append(Item(flight.key, work.prompt, work.negative_prompt, work.seed + flight.unit.n))
    return Batch(flights[0].job.item.config, tuple(items))

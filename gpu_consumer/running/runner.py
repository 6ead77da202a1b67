"""What runs. One task, woken by a change of the backlog or by the engine: take in what happened, let leave what need
not go on, send what was claimed, claim what there is room for.

An engine's death is charged to what had a slot and to nothing else, so more may be marked than runs.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import isfinite

from gpu_consumer.about import about
from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.clock import Clock
from gpu_consumer.engine.protocol import Engine, EngineDied, Event, Observed, Profiled, Refused
from gpu_consumer.index import Index
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.running.absorb import Absorber
from gpu_consumer.running.claims import Claims
from gpu_consumer.running.dispatch import Dispatcher
from gpu_consumer.running.inside import Inside
from gpu_consumer.running.keeper import EngineKeeper
from gpu_consumer.running.steps import Steps
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.settle import Settler
from gpu_consumer.spending import Spending
from gpu_consumer.traces import JobTraces

_LOG = logging.getLogger(__name__)


class Runner:
    """For one task: `run`. `paused_until` says until when of the steady clock nothing is to be begun, if so."""

    def __init__(
        self,
        settings: GpuConsumerSettings,
        engine: Engine,
        backlog: Backlog,
        settler: Settler,
        outcomes: Outcomes,
        metrics: GpuMetrics,
        clock: Clock,
        spending: Spending,
        traces: JobTraces,
        *,
        incarnation: str,
        aside: Callable[[Observed | Profiled], None] = lambda _: None,
        paused_until: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._backlog = backlog
        self._settler = settler
        self._outcomes = outcomes
        self._metrics = metrics
        self._clock = clock
        self._paused_until = paused_until
        self._changed = backlog.listen()
        self._inside = Inside(
            backlog.expected, ahead_slots=settings.ahead_slots, claim_seconds=settings.claim_seconds,
            ahead_batches_max=settings.ahead_batches_max,
        )  # fmt: skip
        self.steps = Steps(backlog, self._inside, settings.pool)
        self._absorber = Absorber(self._inside, backlog, settler, metrics, clock, spending, traces, aside)
        self._claims = Claims(settings, backlog, settler, outcomes, clock, incarnation=incarnation)
        self._keeper = EngineKeeper(settings, engine, metrics, clock)
        self._listening: asyncio.Task[EngineDied] | None = None
        self._inbox: list[Event] = []
        self._dispatcher = Dispatcher(
            settings, engine, self._inside, backlog, self._claims, self._absorber, settler, metrics, clock,
            claimed=self._changed.set,
        )  # fmt: skip
        self._stop = asyncio.Event()
        self._told_to_stop = False

    @property
    def running(self) -> tuple[Job, ...]:
        """The jobs that have something in the engine, or on its way there."""
        return tuple(dict.fromkeys(flight.job for flight in self._inside.flights()))

    @property
    def left_seconds(self) -> float:
        """GPU-seconds until what was given to the engine is drawn."""
        return self._inside.left(self._clock.steady())

    @property
    def _stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def restarting(self) -> str | None:
        """Why the engine is being started again, while it is."""
        return self._keeper.restarting

    def stop(self) -> None:
        """Let `run` return when what has a slot has ended."""
        self._stop.set()
        self._changed.set()

    def give_up(self) -> None:
        """The grace is over: mark nothing any more. What runs may be killed at any moment."""
        self._claims.close()

    async def hand_over(self, index: Index) -> None:
        """An index goes to another consumer, who waits for what is marked. What is certain to be made stays, and its
        mark; all else leaves, and that one begins it at once."""
        for job in await self._claims.hand_over(index, self._stays):
            self._backlog.recall(job)

    def _stays(self, job: Job) -> bool:
        """It is made, or all that it lacks has a slot."""
        began = all(flight.joined_at is not None and not flight.leaving for flight in self._inside.of(job))
        return began and not job.decided and self._inside.holds_all(job)

    async def run(self) -> None:
        """Raises EngineUnusable."""
        try:
            while not self._stopping or len(self._inside) or self._dispatcher.claiming:
                self._listen()
                await self._step()
        finally:
            self._dispatcher.close()
            if self._listening is not None:
                self._listening.cancel()

    async def _step(self) -> None:
        await self._wait()
        assert self._listening is not None
        dead = self._listening.done()  # looked at first: what was said before is then all there
        await self._absorb()
        if dead:
            await self._engine_died(self._listening.result())
            return
        for job in self._inside.late(self._clock.steady()):
            if self._backlog.runs(job):
                self._settler.due(job.id)
        await self._claims.renew(self._inside.seconds)
        try:
            await self._recall()
            await self._dispatcher.send(stopping=self._stopping)
        except EngineDied:
            await asyncio.wait({self._listening})  # which says who had joined, after all that happened before
            self._changed.set()
            return
        if not self._stopping and self._outcomes.waiting_for is None and self._paused_until() is None:
            self._dispatcher.choose()
        self._metrics.set("in_flight_jobs", len(self.running))

    async def _wait(self) -> None:
        """Until something happened, or is due."""
        now = self._clock.steady()
        due = [self._inside.next_deadline(), self._claims.renew_at(), pause_ends := self._paused_until()]
        if not self._dispatcher.claiming and self._outcomes.waiting_for is None and pause_ends is None:
            wake = self._backlog.scheduler.next_batch(now)
            # What could go and did not waits for room, which is told as a change.
            due.append(wake if wake is not None and wake > now else None)
        at = min((each for each in due if each is not None and isfinite(each)), default=None)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if at is None else max(0.0, at - now)):
                await self._changed.wait()
        self._changed.clear()

    # The engine's words.

    def _listen(self) -> None:
        if self._listening is None:
            self._listening = asyncio.create_task(self._collect(), name="listen")

    async def _collect(self) -> EngineDied:
        """Until the engine has died. What it said is taken in by the runner, when it comes to it."""
        try:
            while True:
                events = await self._engine.events()
                self._inbox += events
                self._changed.set()
        except EngineDied as death:
            return death
        finally:
            self._changed.set()

    async def _absorb(self) -> None:
        events, self._inbox = self._inbox, []
        for event in events:
            if isinstance(event, Refused):
                await self._refused(event)
            else:
                for job in self._absorber.absorb(event):
                    self._claims.forget(job)

    async def _refused(self, refused: Refused) -> None:
        flights = [flight for key in refused.keys if (flight := self._inside.get(key)) is not None]
        if not flights:
            return
        job = flights[0].job
        _LOG.error("held until it is there: %s", refused.message, extra=about(job, self._inside.pulse.memory))
        for flight in flights:
            self._absorber.lose(flight)
        jobs = [job for job in dict.fromkeys(flight.job for flight in flights) if self._backlog.rests(job)]
        await self._claims.give_back(jobs)
        for job in jobs:
            self._claims.forget(job)
        for kind in dict.fromkeys(flight.unit.kind for flight in flights):
            self._settler.unavailable(kind, refused.message)

    async def _engine_died(self, death: EngineDied) -> None:
        """Charge what had a slot, before anything else can happen to this process; then start again."""
        self._listening = None
        await self._dispatcher.abandon()
        memory = self._inside.pulse.memory
        flights = self._absorber.lose_all()
        _LOG.error("the engine died with %d pictures: %s", len(flights), death)
        jobs = [job for job in dict.fromkeys(flight.job for flight in flights) if self._backlog.runs(job)]
        guilty = {flight.job for flight in flights if flight.sent and flight.key in death.joined}
        for job in jobs:
            job.running = 0
            if job in guilty:
                _LOG.error("job %s had a slot when the engine died", job.id, extra=about(job, memory))
        await self._claims.died(jobs, guilty)
        for job in jobs:
            self._claims.forget(job)
            self._settler.go_on(job)
        if not self._stopping:
            await self._restart(str(death))
        self._changed.set()

    async def _restart(self, why: str) -> None:
        """Until the engine is up again, or we are told to stop: loading may take all of the grace, and serves nobody.

        Raises EngineUnusable.
        """
        restart = asyncio.create_task(self._keeper.restart(why), name="restart")
        stop = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait({restart, stop}, return_when=asyncio.FIRST_COMPLETED)
            if restart.done():
                restart.result()
        finally:
            restart.cancel()
            stop.cancel()
            await asyncio.wait({restart, stop})

    # Our words.

    async def _recall(self) -> None:
        """Let leave what need not go on; at the end also what has no slot yet: another consumer has it sooner, where
        none waits for it to be made here."""
        leaving = [flight for job in self._backlog.recalled() for flight in self._inside.of(job)]
        if self._stopping and not self._told_to_stop:
            self._told_to_stop = True
            waiting = [each for each in self._inside.flights() if each.sent and each.joined_at is None]
            leaving += [each for each in waiting if not self._dispatcher.is_waited_for(each.job)]
        keys = [flight.key for flight in leaving if flight.sent and not flight.leaving]
        for flight in leaving:
            flight.leaving = True
        if keys:
            await self._engine.leave(keys)

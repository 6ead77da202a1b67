"""What the engine said, item by item: pictures and flaws to their jobs, costs to accounts, the rest to metrics."""

import logging
from collections.abc import Callable, Sequence

from gpu_consumer.about import about
from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.clock import Clock
from gpu_consumer.engine.protocol import Drawn, Ended, Event, Flaw, Joined, Observed, Picture, Profiled, Pulse
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.running.gauges import PulseGauges
from gpu_consumer.running.inside import Flight, Inside
from gpu_consumer.settle import Settler
from gpu_consumer.spending import Spending
from gpu_consumer.traces import JobTraces

_LOG = logging.getLogger(__name__)


class Absorber:
    """For one task. `aside` hears what concerns no job."""

    def __init__(
        self,
        inside: Inside,
        backlog: Backlog,
        settler: Settler,
        metrics: GpuMetrics,
        clock: Clock,
        spending: Spending,
        traces: JobTraces,
        aside: Callable[[Observed | Profiled], None],
    ) -> None:
        self._inside = inside
        self._backlog = backlog
        self._settler = settler
        self._metrics = metrics
        self._clock = clock
        self._aside = aside
        self._spending = spending
        self._traces = traces
        self._gauges = PulseGauges(metrics, spending)

    def absorb(self, event: Event) -> Sequence[Job]:
        """The jobs of which nothing runs any more. Keys that are not there any more are passed over."""
        if isinstance(event, Pulse):
            self._inside.pulse = event
            self._gauges.take(event, self._clock.steady())
        elif isinstance(event, Joined):
            for joined in self._known(event.keys):
                self._joined(joined)
        elif isinstance(event, Drawn):
            for drawn in self._known(event.keys):
                drawn.drawn_at = self._clock.steady()
                self._inside.drawn(drawn)
        elif isinstance(event, Observed | Profiled):
            self._aside(event)
        elif isinstance(event, Ended) and (flight := self._inside.get(event.key)) is not None:
            self._ended(flight, event)
            return [flight.job] if not flight.job.running else []
        return []

    def lose(self, flight: Flight) -> None:
        """It is in the engine no more, and did not end."""
        self._inside.remove(flight)
        self._refund(flight)
        if self._backlog.runs(flight.job):
            flight.job.running -= 1
            flight.job.left = True

    def lose_all(self) -> list[Flight]:
        """The engine is gone, with all that was in it."""
        self._gauges.end(self._clock.steady())
        flights = self._inside.clear()
        for flight in flights:
            self._refund(flight)
        return flights

    def _refund(self, flight: Flight) -> None:
        self._backlog.scheduler.served(flight.unit.tenant, flight.unit.lane, -flight.unit.seconds)

    def _known(self, keys: Sequence[str]) -> list[Flight]:
        return [flight for key in keys if (flight := self._inside.get(key)) is not None]

    def _joined(self, flight: Flight) -> None:
        flight.joined_at = self._clock.steady()
        job = flight.job
        if not job.started and job.work.item is not None:
            job.started = True
            wait = max(0.0, (self._clock.now() - job.work.item.accepted_at).total_seconds())
            job.run.timings["wait"] = wait
            self._metrics.observe("job_wait_seconds", wait, lane=job.lane)
            self._spending.began(job.work.item.tenant, wait)
            self._traces.waited(job)

    def _ended(self, flight: Flight, event: Ended) -> None:
        self._inside.remove(flight)
        self._book(flight, event)
        job = flight.job
        if not self._backlog.runs(job):
            return  # another record of the job was settled meanwhile
        job.running -= 1
        if isinstance(event.outcome, Picture):
            job.pictures[flight.unit.n] = event.outcome
        elif event.outcome is not None:
            job.flaw = job.flaw or event.outcome
            _LOG.warning("job %s: %s", job.id, event.outcome.code, extra=about(job, self._inside.pulse.memory))
        else:
            job.left = True
        if job.left and not job.running:
            self._settler.go_on(job)
        else:
            self._settler.end(job)

    def _book(self, flight: Flight, event: Ended) -> None:
        share, unit = event.share, flight.unit
        flight.job.run.add(share)
        if flight.joined_at is not None:
            flaw = event.outcome if isinstance(event.outcome, Flaw) else None
            self._traces.drew(flight.job, unit.n, flight.joined_at, flight.drawn_at, share, flaw)
        cost = self._backlog.expected.cost(share.gpu_seconds)
        self._backlog.scheduler.served(unit.tenant, unit.lane, cost - unit.seconds)
        self._spending.book(unit.tenant, flight.job.item.config.label, share.gpu_seconds)
        if event.outcome is None:
            return
        self._metrics.count("pictures_total")
        self._metrics.set("peak_vram_bytes", share.peak_vram_bytes)
        for stage, seconds in share.timings.items():
            if seconds:
                self._metrics.observe("stage_seconds", seconds, stage=stage)
        if flight.joined_at is not None:
            run_seconds = self._clock.steady() - flight.joined_at
            self._metrics.observe("run_seconds", run_seconds, lane=unit.lane)
            if isinstance(event.outcome, Picture):
                self._backlog.expected.ran(unit.config_hash, run_seconds)
        if isinstance(event.outcome, Picture):
            self._backlog.expected.learn(unit.config_hash, share.gpu_seconds)
            self._settler.available(unit.kind)

"""Looks at the consumer from outside every few seconds: its lag, what it waits for, and whether anything moves."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import product
from typing import Literal, TypeAlias, get_args

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.cancels import Cancels
from gpu_consumer.clock import Clock
from gpu_consumer.fetcher import Fetcher
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Outcomes
from gpu_consumer.owner import Owner
from gpu_consumer.progress import ProgressWatch
from gpu_consumer.running.runner import Runner
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.stops import Stops
from schemas.errors import told
from schemas.request import LANES, Lane
from streams.kafka.errors import ViewFailed
from streams.kafka.settings import KafkaSettings
from streams.kafka.stable import StableWatch

_LOG = logging.getLogger(__name__)
_PERIOD_SECONDS_MAX = 5.0
JobState: TypeAlias = Literal["waiting", "begun"]


class NoProgress(Exception):
    """There is work, nothing to wait for, and nothing moves. End the process: its client may be dead."""


class Watch:
    """For one task: `run`. `stuck` is what /livez says."""

    def __init__(
        self,
        settings: GpuConsumerSettings,
        kafka: KafkaSettings,
        fetcher: Fetcher,
        owner: Owner,
        backlog: Backlog,
        runner: Runner,
        outcomes: Outcomes,
        cancels: Cancels,
        stops: Stops,
        metrics: GpuMetrics,
        clock: Clock,
    ) -> None:
        self._timeout_seconds = settings.progress_timeout_seconds
        self._request_seconds = kafka.request_timeout_ms / 1000
        self._fetcher = fetcher
        self._owner = owner
        self._backlog = backlog
        self._runner = runner
        self._outcomes = outcomes
        self._views: dict[str, Cancels | Stops] = {"cancels": cancels, "control": stops}
        self._stops = stops
        self._metrics = metrics
        self._clock = clock
        self._stable = StableWatch()
        self._measured: set[TopicPartition] = set()
        self._broker_trouble: str | None = None
        self._ends_at = clock.steady()
        self._rewound: str | None = None
        self.stuck: str | None = None

    async def run(self) -> None:
        """Raises NoProgress, and ViewFailed where cancels or control cannot be read any more."""
        progress = ProgressWatch(self._timeout_seconds, self._clock.steady())
        while True:
            await asyncio.sleep(min(_PERIOD_SECONDS_MAX, self._timeout_seconds / 4))
            for topic, view in self._views.items():
                if view.failure is not None:
                    raise ViewFailed(f"{topic} cannot be read any more: {view.failure}") from view.failure
            written = self._fetcher.highwaters()
            ends = await self._ask_for_ends()
            self._count(ends)
            self._look_for_open_transactions(ends, written)
            self.stuck = progress.look(
                self._clock.steady(),
                self._position(),
                undone=await self._undone(ends),
                busy=bool(self._runner.running or self._backlog.count("settling")),
                waiting_for=self.waiting_for() or self._planned_wait(),
            )
            self._metrics.set("stalled_seconds", progress.stalled_seconds)
            if self.stuck is not None:
                raise NoProgress(self.stuck)

    def waiting_for(self) -> str | None:
        """A wait that is nobody's fault here, and that a person should know of."""
        restarting = self._runner.restarting
        return (
            self._outcomes.waiting_for
            or self._outcomes.silence
            or self._fetcher.trouble
            or self._broker_trouble
            or self._rewound
            or (f"the engine is starting again: {restarting}" if restarting else None)
        )

    def _planned_wait(self) -> str | None:
        if (paused := self._stops.paused) is not None:
            return paused
        now = self._clock.steady()
        wake = self._backlog.scheduler.next_batch(now)
        if wake is not None and wake > now:
            return "pictures that wait for their batch"
        return None

    async def _ask_for_ends(self) -> dict[TopicPartition, int]:
        try:
            async with asyncio.timeout(self._request_seconds):
                ends = await self._fetcher.ends()
        except (TimeoutError, KafkaError) as error:
            self._broker_trouble = f"the broker: {told(error)}"
            return {}
        self._broker_trouble, self._ends_at = None, self._clock.steady()
        return ends

    async def _undone(self, ends: dict[TopicPartition, int]) -> str | None:
        """What should move, in words. Not what is held, or may be running elsewhere, nor what that keeps from being
        taken."""
        jobs = len(self._backlog.jobs) - self._backlog.count("held")
        for partition, end in ends.items():
            if (index := self._owner.get(partition.partition)) is not None and self._fetcher.wants(partition):
                jobs += max(0, end - index.next(self._fetcher.lane_of(partition.topic)))
        if jobs:
            return f"{jobs} records wait"
        # A member that the group has dropped for good may never hear of it (case AIO-02).
        return None if await self._fetcher.is_live_member() else "the group does not know this consumer"

    def _position(self) -> tuple[tuple[int, int, int], ...]:
        """Changes with everything that is taken or finished."""
        return tuple(
            (index.number, index.next(lane), index.ledger(lane).watermark)
            for index in self._owner.open
            for lane in LANES
        )

    def _count(self, ends: dict[TopicPartition, int]) -> None:
        for lane in LANES:
            self._metrics.set("backlog_pictures", self._backlog.pictures(lane), lane=lane)
        for (lane, state), seconds in oldest(self._backlog.jobs.values(), self._clock.now()).items():
            self._metrics.set("oldest_job_seconds", seconds, lane=lane, state=state)
        for view, followed in self._views.items():
            self._metrics.set("view_age_seconds", followed.age_seconds, view=view)
        self._metrics.set("view_age_seconds", self._clock.steady() - self._ends_at, view="ends")
        self._metrics.set("paused", self._stops.paused is not None)
        self._metrics.set("held_jobs", self._backlog.count("held"))
        self._metrics.set("settling_jobs", self._backlog.count("settling"))
        measured, passed_by = set(), 0
        rewound = None
        for partition, end in ends.items():
            if (index := self._owner.get(partition.partition)) is not None:
                lane = self._fetcher.lane_of(partition.topic)
                finished = index.ledger(lane).watermark
                if end < finished:
                    passed_by += 1
                    rewound = (
                        f"{partition.topic}[{partition.partition}] ends at {end} and {finished} of it are finished: it "
                        "was made anew, and its records are passed by; docs/runbooks/KilnLedgerBeyondWork.md says what "
                        "to do"
                    )
                self._metrics.set("lag_records", max(0, end - finished), lane=lane, index=str(partition.partition))
                measured.add(partition)
        for partition in self._measured - measured:
            lane = self._fetcher.lane_of(partition.topic)
            self._metrics.forget("lag_records", lane=lane, index=str(partition.partition))
        self._measured = measured
        self._metrics.tell("passed_by_partitions", passed_by if self._broker_trouble is None else None)
        if rewound is not None and self._rewound is None:
            _LOG.error("%s", rewound)
        self._rewound = rewound

    def _look_for_open_transactions(
        self, ends: Mapping[TopicPartition, int], written: Mapping[TopicPartition, int]
    ) -> None:
        if self._broker_trouble is not None:
            return  # nothing was seen, which is neither open nor whole
        now = self._clock.steady()
        self._stable.look({at: end for at, end in ends.items() if at in written}, written, now)
        for topic, worst in self._stable.worst(self._fetcher.topics, now):
            self._metrics.set("unstable_records", worst.records, topic=topic)
            self._metrics.set("unstable_seconds", worst.seconds, topic=topic)


def oldest(jobs: Iterable[Job], now: datetime) -> dict[tuple[Lane, JobState], float]:
    """Seconds since the admission of the oldest job, by lane and by whether it had a slot already; 0 where there is
    none. Jobs that nobody here can read are left out."""
    found: dict[tuple[Lane, JobState], float] = dict.fromkeys(product(LANES, get_args(JobState)), 0.0)
    for job in jobs:
        if job.work.item is not None:
            at: tuple[Lane, JobState] = job.lane, "begun" if job.started else "waiting"
            found[at] = max(found[at], (now - job.work.item.accepted_at).total_seconds())
    return found

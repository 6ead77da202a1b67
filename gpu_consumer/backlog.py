"""Every job of this process, from its record to its end. One job an id: repeats are parked behind it."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from gpu_consumer.engine.protocol import Flaw, Picture
from gpu_consumer.index import Index
from gpu_consumer.intake import Work
from gpu_consumer.results import Run
from gpu_consumer.scheduling.expected import Expected
from gpu_consumer.scheduling.scheduler import Scheduler, Unit
from gpu_consumer.verdicts import Verdict
from schemas.names import request_name
from schemas.outcome import WorkRecord
from schemas.request import Lane
from schemas.work import WorkItem

Phase = Literal["looked_up", "queued", "held", "settling"]


@dataclass(slots=True, eq=False)
class Job:
    """A record of work and how far it has come."""

    index: Index
    lane: Lane
    record: WorkRecord
    work: Work
    key: bytes | None
    value: bytes | None
    deadline: float  # of the steady clock
    phase: Phase = "looked_up"
    running: int = 0  # pictures that are in the engine, or on their way to it
    left: bool = False  # some of them came back without an end
    pictures: dict[int, Picture] = field(default_factory=dict)
    flaw: Flaw | None = None
    verdict: Verdict | None = None
    run: Run = field(default_factory=Run)
    started: bool = False
    engine_deaths: int = 0
    problem: str | None = None  # why it cannot run here

    @property
    def id(self) -> str:
        return self.work.job_id

    @property
    def name(self) -> bytes | None:
        """Of its request. None: its record does not say."""
        names = self.work.names
        return None if names is None else request_name(names.tenant, names.request_id)

    @property
    def requested_ms(self) -> float | None:
        """LogAppendTime of its request; without it, when it was accepted. None: its record does not say."""
        item = self.work.item
        if item is None:
            return None
        return item.accepted_at.timestamp() * 1000 if item.appended_ms is None else item.appended_ms

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def item(self) -> WorkItem:
        """Of a job that can run here."""
        assert self.work.item is not None, "a work item of an unknown version does not run"
        return self.work.item

    @property
    def images(self) -> int:
        return self.work.item.images if self.work.item else 1

    @property
    def complete(self) -> bool:
        return len(self.pictures) == self.images

    @property
    def decided(self) -> bool:
        """How it ends is known, but for a success that may still come."""
        return self.flaw is not None or self.verdict is not None

    @property
    def ended(self) -> bool:
        """Nothing of it runs any more, and how it ends is known."""
        return not self.running and (self.complete or self.decided)

    def units(self, expected: Expected) -> list[Unit]:
        """The pictures that are still to be made."""
        item = self.item
        seconds, run_seconds = expected.seconds(item.config), expected.run_seconds(item.config_hash)
        return [
            Unit(
                job=self.id,
                n=n,
                tenant=item.tenant,
                lane=self.lane,
                config_hash=item.config_hash,
                kind=item.config.kind,
                model=item.config.model_key,
                bucket=item.config.bucket,
                joins=item.config.batching == "step",
                deadline=self.deadline,
                seconds=seconds,
                alone=self.engine_deaths > 0,
                run_seconds=run_seconds,
            )
            for n in range(item.images)
            if n not in self.pictures
        ]


class Backlog:
    """Changes are told through `changed`, one event a listener. Not thread-safe: for one loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.expected = Expected()
        self.jobs: dict[str, Job] = {}
        self._named: dict[bytes, list[Job]] = {}
        self._recalled: dict[Job, None] = {}
        self._parked: dict[str, list[Job]] = {}
        self._pictures: Counter[Lane] = Counter()
        self._phases: Counter[Phase] = Counter()
        self._listeners: list[asyncio.Event] = []

    def listen(self) -> asyncio.Event:
        event = asyncio.Event()
        self._listeners.append(event)
        return event

    def changed(self) -> None:
        for event in self._listeners:
            event.set()

    def pictures(self, lane: Lane) -> int:
        """Taken and not settled. What is held does not count, nor repeats: neither may keep others out."""
        return self._pictures[lane]

    def problems(self) -> list[str]:
        """Why jobs are held that this consumer cannot run."""
        return [job.problem for job in self.jobs.values() if job.phase == "held" and job.problem is not None]

    def count(self, phase: Phase) -> int:
        return self._phases[phase]

    def named(self, name: bytes) -> list[Job]:
        """The jobs of a request (schemas.names.request_name)."""
        return list(self._named.get(name, ()))

    def of(self, index: Index) -> list[Job]:
        return [job for job in self.jobs.values() if job.index is index]

    def runs(self, job: Job) -> bool:
        """It is here, and something of it is in the engine or on its way there."""
        return self.jobs.get(job.id) is job and job.running > 0

    def rests(self, job: Job) -> bool:
        """It is here, neither held nor settling, and nothing of it runs."""
        return self.jobs.get(job.id) is job and job.phase == "queued" and not job.running

    def recall(self, job: Job) -> None:
        """What runs of it need not go on. It leaves the engine at its next step."""
        self._recalled[job] = None
        self.changed()

    def recalled(self) -> list[Job]:
        """Those recalled since the last call."""
        jobs, self._recalled = list(self._recalled), {}
        return jobs

    def enter(self, job: Job) -> bool:
        """False: the same job is here already, and this record waits until that one is settled."""
        if job.id in self.jobs:
            self._parked.setdefault(job.id, []).append(job)
            return False
        self.jobs[job.id] = job
        if job.name is not None:
            self._named.setdefault(job.name, []).append(job)
        self._pictures[job.lane] += job.images
        self._phases[job.phase] += 1
        return True

    def leave(self, job: Job) -> list[Job]:
        """The job is over here. Returns the records that were parked behind it, to be looked at again."""
        assert self.jobs.get(job.id) is job, "a job leaves once"
        self.scheduler.discard(job.id)
        del self.jobs[job.id]
        if job.name is not None:
            self._named[job.name].remove(job)
            if not self._named[job.name]:
                del self._named[job.name]
        self._phases[job.phase] -= 1
        if job.phase != "held":
            self._pictures[job.lane] -= job.images
        self.changed()
        parked = [each for each in self._parked.pop(job.id, ()) if not each.index.void]
        for each in parked:
            if each.record == job.record:  # its index was lost, and opened again by us, while it ran
                each.pictures, each.run, each.started = job.pictures, job.run, job.started
        return parked

    def queue(self, job: Job, now: float) -> None:
        """Let the pictures that are missing run."""
        self._move(job, "queued")
        job.left = False
        for unit in job.units(self.expected):
            self.scheduler.add(unit, now)
        self.changed()

    def hold(self, job: Job, until: float, problem: str | None) -> None:
        """Keep a job that cannot run now, without a slot; the scheduler gives it back at `until`, as expired.

        Without a problem it only waits, for another process that may be running it.
        """
        job.problem = problem
        self._move(job, "held")
        self.scheduler.hold(job.id, until)
        self.changed()

    def look_again(self, job: Job) -> None:
        self._move(job, "looked_up")

    def settling(self, job: Job) -> None:
        self._move(job, "settling")
        self.scheduler.discard(job.id)

    def drop(self, index: Index) -> Iterable[Job]:
        """Let what an index that is void has waiting run no more. What runs goes on, to store what it makes.

        Returns the jobs that are to leave.
        """
        dropped = [job for job in self.of(index) if job.phase in ("queued", "held")]
        for job in dropped:
            self.scheduler.discard(job.id)
        return [job for job in dropped if not job.running]

    def _move(self, job: Job, phase: Phase) -> None:
        if (job.phase == "held") != (phase == "held"):
            self._pictures[job.lane] += job.images if job.phase == "held" else -job.images
        self._phases[job.phase] -= 1
        self._phases[phase] += 1
        job.phase = phase

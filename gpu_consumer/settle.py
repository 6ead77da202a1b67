"""The only way out of the backlog, for every status: look up, decide, store once, publish what is stored.

1. The outcome of the job is looked up before anything else. Stored by this record: publish it. Stored by another:
   finish this record silently. None: go on.
2. The same job is here already: this record is parked until that one is settled.
3. It runs, or it is decided that it failed, expired or was cancelled.
4. Its artifacts are stored, then its outcome, which names this record, and only if there is none yet.
5. What is stored is published, whoever stored it: one transaction of result, ledger and offset.

A consumer that lost the index meanwhile stores a success that it has finished, and nothing else: the owner finds it.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

from gpu_consumer import results, verdicts
from gpu_consumer.about import about
from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.clock import Clock
from gpu_consumer.index import Change, Index, finish
from gpu_consumer.intake import Names
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.outcomes import Ending, Outcomes
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import OutcomeUnreadable
from gpu_consumer.store.outcomes import StoredArtifact
from gpu_consumer.traces import JobTraces, result_headers
from schemas.codec import encode
from schemas.cost import Price
from schemas.dead_letter import dead_letter_headers
from schemas.outcome import Outcome, WorkRecord
from schemas.request import Lane
from schemas.result import Environment, Failed, GenerationResult
from schemas.topics import Catalogue
from streams.kafka.errors import LeaseVoid
from streams.kafka.sending import Output

_LOG = logging.getLogger(__name__)
_HOLD_SECONDS_MIN = 0.1  # a job that is held is looked at again; never in a tight loop
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Settler:
    """For one loop. `spawn` runs a coroutine under the consumer's care; `on_void` hears of each index lost;
    `cancelled` says why a job is cancelled: empty for a cancel of its own, None where it is not."""

    def __init__(
        self,
        settings: GpuConsumerSettings,
        catalogue: Catalogue,
        backlog: Backlog,
        outcomes: Outcomes,
        metrics: GpuMetrics,
        clock: Clock,
        price: Price,
        traces: JobTraces,
        *,
        incarnation: str,
        spawn: Spawn,
        on_void: Callable[[Index, LeaseVoid], None],
        cancelled: Callable[[Job], str | None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._backlog = backlog
        self._outcomes = outcomes
        self._metrics = metrics
        self._clock = clock
        self._price = price
        self._traces = traces
        self._incarnation = incarnation
        self._spawn = spawn
        self._on_void = on_void
        self._cancelled = cancelled
        self._unavailable: dict[str, tuple[float, str]] = {}  # kind -> when to ask again, and what was wrong
        self._held_for: str | None = None  # what was said last
        self._ended: list[Job] = []  # and not concluded yet: what ends at once goes on together
        self.environment: Environment | None = None  # set once the engine has said what it runs on

    def admit(self, jobs: Sequence[Job]) -> None:
        """Steps 1 and 2 for records just taken."""
        if entered := [job for job in jobs if self._backlog.enter(job)]:
            self._spawn(self._look_up(entered))

    def due(self, job_id: str) -> None:
        """A job's deadline is over, or it was held long enough to be looked at again."""
        job = self._backlog.jobs[job_id]
        if job.phase == "held":
            self._backlog.look_again(job)
            self._spawn(self._look_up([job]))
            return
        job.verdict = job.verdict or verdicts.late(started=job.started)
        self.end(job)

    def cancel(self, job: Job, because: str = "") -> None:
        """Whatever it waits for, it ends; what runs of it leaves. A success that is stored first wins."""
        if job.phase == "settling" or job.decided:
            return
        job.verdict = verdicts.cancelled(because, started=job.started)
        if job.phase == "held":
            self._backlog.scheduler.discard(job.id)
            self._backlog.look_again(job)
            self._spawn(self._look_up([job]))
        elif job.phase == "queued":
            self._backlog.scheduler.discard(job.id)
            self.end(job)

    def end(self, job: Job) -> None:
        """Go on with a job of which something ended: settle it, or drop it where its index was lost."""
        if job.running:
            if job.decided:
                self._backlog.scheduler.discard(job.id)  # it ends as a whole: no more GPU time for it
                self._backlog.recall(job)
            return
        if job.ended:
            self._backlog.settling(job)
            self._ended.append(job)
            if len(self._ended) == 1:
                self._spawn(self._conclude())
        elif job.index.void:
            self._leave(job)

    def go_on(self, job: Job) -> None:
        """The same with a job that came back without an end: all of it is placed anew. Nothing where it went another
        way meanwhile: a deadline, a cancel or the loss of its index does not wait for the transactions of others.
        """
        if not self._backlog.rests(job):
            return
        self._backlog.scheduler.discard(job.id)
        if job.ended or job.index.void:
            self.end(job)
        else:
            self.place(job)

    def place(self, job: Job) -> None:
        """Step 3: where a job without an outcome goes, by what its ledger says of its former runs."""
        now = self._clock.steady()
        mark = job.index.ledger(job.lane).marks.get(job.offset)
        elsewhere = mark is not None and mark.runs_elsewhere(self._incarnation, self._clock.wall_ms())
        if mark is not None:
            consumer_deaths = mark.consumer_deaths + mark.left_by_another(self._incarnation)
            job.engine_deaths = mark.engine_deaths
            job.run.attempt = 1 + mark.engine_deaths + consumer_deaths
            if not elsewhere and job.work.problem is None:
                job.verdict = verdicts.deadly(mark.engine_deaths, consumer_deaths, self._settings) or job.verdict
        if job.verdict is None and (because := self._cancelled(job)) is not None:
            job.verdict = verdicts.cancelled(because, started=job.started)
        if job.verdict is None and job.deadline <= now:
            job.verdict = verdicts.late(started=job.started)
        if job.ended:
            self.end(job)
        elif problem := self._problem(job, now):
            self.hold(job, *problem)
        elif elsewhere:
            # Its outcome may appear at any moment; the mark says until when that is worth waiting for.
            self.hold(job, now + self._settings.mark_poll_seconds, None)
        else:
            self._backlog.queue(job, now)

    def hold(self, job: Job, until: float, problem: str | None) -> None:
        if problem is not None and problem != self._held_for:
            self._held_for = problem  # a thousand jobs may be held for one reason
            _LOG.warning("job %s is held, as others may be: %s", job.id, problem, extra=about(job))
        self._backlog.hold(job, max(until, self._clock.steady() + _HOLD_SECONDS_MIN), problem)

    def unavailable(self, kind: str, message: str) -> None:
        """Hold the jobs of this kind until it is time to ask the engine again. Others of its model may well run."""
        self._unavailable[kind] = (self._clock.steady() + self._settings.hold_retry_seconds, message)
        for job in list(self._backlog.jobs.values()):
            if job.work.item is not None and job.work.item.config.kind == kind:
                self.go_on(job)

    def available(self, kind: str) -> None:
        self._unavailable.pop(kind, None)

    def stored(self, job: Job, outcome: Outcome | OutcomeUnreadable) -> None:
        """An outcome was found right before the job would have run."""
        self._backlog.scheduler.discard(job.id)
        if isinstance(outcome, OutcomeUnreadable):
            self._hold_unreadable(job, outcome)
        else:
            self._backlog.settling(job)
            self._spawn(self._publish([(job, outcome)]))

    async def dead_letter(
        self, index: Index, lane: Lane, record: WorkRecord, key: bytes | None, value: bytes | None, message: str
    ) -> None:
        """Finish a record that no version can read, or that no longer names its request."""
        headers = dead_letter_headers("malformed", message, record.topic, record.partition, record.offset)
        letter = Output(self._catalogue.dead_letters, 0, key, b"" if key is None and value is None else value, headers)
        if await self.write(index, [finish(lane, record.offset, letter)]):
            self._metrics.count("dead_letters_total", reason="malformed")
            _LOG.warning("%s[%d] offset %d: %s", record.topic, record.partition, record.offset, message)

    async def write(self, index: Index, changes: Sequence[Change]) -> bool:
        """Commit, or tell that the index is lost. False: it is."""
        try:
            await index.write(changes)
        except LeaseVoid as error:
            self._on_void(index, error)
            return False
        return True

    async def hand_back(self, index: Index) -> None:
        """Clear our marks, so that the next owner starts at once and counts no death."""
        try:
            await index.hand_back(self._incarnation)
        except LeaseVoid as error:
            self._on_void(index, error)

    def drop(self, index: Index) -> None:
        """Forget what waits of an index that was lost; its new owner has it, or we have it again."""
        for job in self._backlog.drop(index):
            self._leave(job)

    async def _look_up(self, jobs: Sequence[Job]) -> None:
        found = await self._outcomes.lookup([job.id for job in jobs])
        stored: list[tuple[Job, Outcome]] = []
        for job, outcome in zip(jobs, found, strict=True):
            if job.index.void:
                self._leave(job)
            elif outcome is None:
                self.place(job)
            elif isinstance(outcome, Outcome):
                self._backlog.settling(job)
                stored.append((job, outcome))
            else:
                self._hold_unreadable(job, outcome)
        await self._publish(stored)

    def _hold_unreadable(self, job: Job, error: OutcomeUnreadable) -> None:
        self.hold(job, self._clock.steady() + self._settings.hold_retry_seconds, str(error))

    def _problem(self, job: Job, now: float) -> tuple[float, str] | None:
        """Until when, and why, this consumer cannot run the job."""
        if job.work.problem is not None or job.work.item is None:
            problem = job.work.problem or "a work item of an unknown version"
            return min(job.deadline, now + self._settings.hold_retry_seconds), problem
        retry_at, message = self._unavailable.get(job.work.item.config.kind, (0.0, ""))
        return (min(job.deadline, retry_at), message) if now < retry_at else None

    async def _conclude(self) -> None:
        """Steps 4 and 5 of what ended at once."""
        ended, self._ended = self._ended, []
        await asyncio.gather(*(self._store(jobs) for jobs in self._outcomes.parts(ended)))

    async def _store(self, jobs: Sequence[Job]) -> None:
        began = self._clock.steady()
        endings: dict[Job, Ending] = {}
        for job in jobs:
            if job.index.void and not job.complete:
                self._leave(job)
            elif (ending := self._ending(job)) is not None:
                endings[job] = ending
            else:
                self._spawn(self._bury(job))
        if not endings:
            return
        answers = await self._outcomes.settle([*endings.values()])
        for job in list(endings)[len(answers) :]:
            self._spawn(self._store([job]))
        stored: list[tuple[Job, Outcome]] = []
        for job, outcome in zip(endings, answers, strict=False):
            if isinstance(outcome, OutcomeUnreadable):
                self._hold_unreadable(job, outcome)
                continue
            if job.complete:
                self._metrics.observe("stage_seconds", job.run.timings["store"], stage="store")
            self._traces.stored(job, began)
            if job.index.void:
                self._metrics.count("stored_fenced_total")
                self._leave(job)
            else:
                stored.append((job, outcome))
        await self._publish(stored)

    async def _bury(self, job: Job) -> None:
        because = f"expired, and unreadable: {job.work.problem}"
        await self.dead_letter(job.index, job.lane, job.record, job.key, job.value, because)
        self._leave(job)

    def _ending(self, job: Job) -> Ending | None:
        """None: what is known of the job is not enough for a result."""
        names = job.work.names
        if names is None:
            return None
        partition = names.results_partition

        def outcome(artifacts: Sequence[StoredArtifact], seconds: float) -> Outcome:
            if job.complete:
                job.run.timings["store"] = seconds
            result = self._result(job, names, artifacts)
            return Outcome(job_id=job.id, record=job.record, results_partition=partition, result=result)

        return Ending(job.id, sorted(job.pictures.items()) if job.complete else (), outcome)

    def _result(self, job: Job, names: Names, artifacts: Sequence[StoredArtifact]) -> GenerationResult:
        item = job.work.item
        if job.complete:
            assert item is not None, "only what can be read runs"
            assert self.environment is not None, "set before anything runs"
            return results.succeeded(
                item, job.pictures, artifacts, job.run, self.environment, self._price, self._finished_at()
            )
        status, code, message = job.verdict or ("failed", None, "")
        if job.flaw is not None:
            status, code, message = "failed", job.flaw.code, job.flaw.message
        if status == "failed" and code is not None:
            assert item is not None, "only what can be read runs"
            return results.failed(item, code, message, job.run, self.environment, self._price, self._finished_at())
        seconds, ended_at = job.run.gpu_seconds, self._finished_at()
        if status == "cancelled":
            return results.cancelled(job.id, names, item, message, seconds, self._price, ended_at)
        if job.problem is not None:
            message = f"{message}: {job.problem}"
        deadline_ms = job.work.deadline_ms
        return results.expired(job.id, names, item, deadline_ms, message, seconds, self._price, ended_at)

    async def _publish(self, stored: Sequence[tuple[Job, Outcome]]) -> None:
        """Step 5. Every index in a transaction of its own, or in one that others share."""
        by_index: dict[Index, list[tuple[Job, Outcome]]] = defaultdict(list)
        for job, outcome in stored:
            by_index[job.index].append((job, outcome))
        await asyncio.gather(*(self._publish_of(index, pairs) for index, pairs in by_index.items()))

    async def _publish_of(self, index: Index, pairs: Sequence[tuple[Job, Outcome]]) -> None:
        began = self._clock.steady()
        changes = [
            finish(job.lane, job.offset, *([self._output(job, outcome)] if outcome.record == job.record else []))
            for job, outcome in pairs
        ]
        published = await self.write(index, changes)
        for job, outcome in pairs:
            if published and outcome.record == job.record:
                if isinstance(outcome.result, Failed):
                    _LOG.warning("job %s has failed: %s", job.id, outcome.result.code, extra=about(job))
                self._metrics.count("settled_total", status=outcome.result.status)
                self._traces.settled(job, outcome.result.status, began)
            elif published:
                self._metrics.count("repeats_total")
            self._leave(job)

    def _output(self, job: Job, outcome: Outcome) -> Output:
        result, headers = outcome.result, result_headers(job.id, job.work.trace)
        key = result.tenant.encode()
        return Output(self._catalogue.results, outcome.results_partition, key, encode(result), headers)

    def _leave(self, job: Job) -> None:
        self.admit(self._backlog.leave(job))

    def _finished_at(self) -> datetime:
        return self._clock.now()

"""The outcome store as the consumer uses it: a bounded pool of threads, and patience. No job fails for an outage."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from gpu_consumer.engine.protocol import Picture
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import OutcomeUnreadable, StoreRefused, StoreUnavailable
from gpu_consumer.store.outcomes import OutcomeStore, StoredArtifact
from schemas.outcome import Outcome
from streams.backoff import Backoff

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Ending:
    """A job's pictures under their numbers, and what makes its outcome of where they lie and the seconds that took. It
    is called in a thread."""

    job_id: str
    pictures: Sequence[tuple[int, Picture]]
    outcome: Callable[[Sequence[StoredArtifact], float], Outcome]


class Outcomes:
    """Each call is repeated with back-off until the store has answered; `waiting_for` says so meanwhile."""

    def __init__(self, store: OutcomeStore, settings: GpuConsumerSettings, metrics: GpuMetrics) -> None:
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(settings.store_threads, "store")
        self._calls: dict[Future[Any], float] = {}  # and since when
        self.waiting_for: str | None = None
        self.on_answer: Callable[[], None] = lambda: None  # called when the store answers again

    @property
    def calls(self) -> int:
        """Calls that have not returned, those included that nobody waits for any more."""
        return len(self._calls)

    @property
    def silence(self) -> str | None:
        """Named where a call has not returned for so long that nobody would know what is waited for."""
        began = min(list(self._calls.values()), default=None)  # a copy: they end in threads of their own
        if began is None or time.monotonic() - began < self._settings.progress_timeout_seconds / 2:
            return None
        return f"the store: a call has not returned for {time.monotonic() - began:.0f} s"

    async def lookup(self, job_ids: Sequence[str]) -> list[Outcome | OutcomeUnreadable | None]:
        """The outcome of each job, in order: None where there is none yet."""
        if not job_ids:
            return []
        answers = await asyncio.gather(*(self._patiently(partial(self._lookup, part)) for part in self.parts(job_ids)))
        return [outcome for answer in answers for outcome in answer]

    def parts(self, every: Sequence[_T]) -> list[Sequence[_T]]:
        """One for each thread, where there are as many: to hand a call over takes longer than a quick store does."""
        size = max(1, -(-len(every) // self._settings.store_threads))
        return [every[at : at + size] for at in range(0, len(every), size)]

    async def settle(self, endings: Sequence[Ending]) -> list[Outcome | OutcomeUnreadable]:
        """Store the pictures of each job, then offer its outcome; the answers are those that are stored. In one thread,
        one job after the other.

        Where the store fails amid several the answers end there, and each of the others is to be tried alone, so that a
        job which it never takes holds up no other. One alone is tried until the store answers.
        """
        if len(endings) == 1:
            return [await self._patiently(self._alone(endings[0]))]
        stored = await asyncio.wrap_future(self._submit(partial(self._together, endings)))
        if stored:
            self._answered()
        return stored

    def close(self) -> None:
        """Do not wait for calls under way: each is bounded by the store's own deadline."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _together(self, endings: Sequence[Ending]) -> list[Outcome | OutcomeUnreadable]:
        stored: list[Outcome | OutcomeUnreadable] = []
        with suppress(StoreUnavailable, StoreRefused):
            for ending in endings:
                stored.append(self._offer(self._put(ending)))  # noqa: PERF401 -- what came before a failure counts
        return stored

    def _alone(self, ending: Ending) -> Callable[[], Outcome | OutcomeUnreadable]:
        """To be called until it returns: what is stored is not stored again."""
        offers: list[Outcome] = []

        def settle() -> Outcome | OutcomeUnreadable:
            if not offers:
                offers.append(self._put(ending))
            return self._offer(offers[0])

        return settle

    def _offer(self, outcome: Outcome) -> Outcome | OutcomeUnreadable:
        try:
            return self._store.settle(outcome)
        except OutcomeUnreadable as error:  # of this job alone
            return error

    def _put(self, ending: Ending) -> Outcome:
        began = time.monotonic()
        artifacts = [
            self._store.put_artifact(ending.job_id, n, picture.data, picture.extension, picture.content_type)
            for n, picture in ending.pictures
        ]
        return ending.outcome(artifacts, time.monotonic() - began)

    def _lookup(self, job_ids: Sequence[str]) -> list[Outcome | OutcomeUnreadable | None]:
        found: list[Outcome | OutcomeUnreadable | None] = []
        for job_id in job_ids:
            try:
                found.append(self._store.lookup(job_id))
            except OutcomeUnreadable as error:  # of this job alone
                found.append(error)
        return found

    def _submit(self, call: Callable[[], _T]) -> "Future[_T]":
        future = self._threads.submit(call)
        self._calls[future] = time.monotonic()
        future.add_done_callback(lambda done: self._calls.pop(done, None))
        return future

    async def _patiently(self, call: Callable[[], _T]) -> _T:
        backoff = Backoff(self._settings.store_backoff_seconds_min, self._settings.store_backoff_seconds_max)
        while True:
            try:
                answer = await asyncio.wrap_future(self._submit(call))
            except (StoreUnavailable, StoreRefused) as error:
                if self.waiting_for is None:
                    _LOG.warning("the store does not answer as it should: %s", error)
                self.waiting_for = f"the store: {error}"
                self._metrics.count("store_retries_total")
                await asyncio.sleep(backoff.next())
            else:
                self._answered()
                return answer

    def _answered(self) -> None:
        if self.waiting_for is not None:
            _LOG.info("the store answers again")
            self.waiting_for = None
            self.on_answer()

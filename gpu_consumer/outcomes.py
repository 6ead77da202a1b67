"""The outcome store as the consumer uses it: a bounded pool of threads, and patience. No job fails for an outage."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
        size = -(-len(job_ids) // self._settings.store_threads)
        parts = [job_ids[at : at + size] for at in range(0, len(job_ids), size)]
        answers = await asyncio.gather(*(self._patiently(partial(self._lookup, part)) for part in parts))
        return [outcome for answer in answers for outcome in answer]

    async def put(self, job_id: str, pictures: Sequence[tuple[int, Picture]]) -> list[StoredArtifact]:
        """Store the pictures of a job, each under its number. Doing it again is the same."""
        return await self._patiently(
            lambda: [
                self._store.put_artifact(job_id, n, picture.data, picture.extension, picture.content_type)
                for n, picture in pictures
            ]
        )

    async def settle(self, outcome: Outcome) -> Outcome:
        """Offer an outcome; the answer is the one that is stored. Raises OutcomeUnreadable."""
        return await self._patiently(lambda: self._store.settle(outcome))

    def close(self) -> None:
        """Do not wait for calls under way: each is bounded by the store's own deadline."""
        self._threads.shutdown(wait=False, cancel_futures=True)

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
            except OutcomeUnreadable:
                self._answered()
                raise
            else:
                self._answered()
                return answer

    def _answered(self) -> None:
        if self.waiting_for is not None:
            _LOG.info("the store answers again")
            self.waiting_for = None
            self.on_answer()

"""The spans of a job in a GPU consumer: its wait, each picture, its store, its settling.

All are children of admission's span, which the work record names. A job that no trace was begun for has none.
"""

from collections.abc import Mapping

from gpu_consumer.backlog import Job
from gpu_consumer.clock import Clock
from gpu_consumer.engine.protocol import Flaw, Share
from schemas.trace import HEADER_TRACE, SETTLE, TraceContext, span_id_of
from streams.tracing import Tracing

_NS = 1_000_000_000


class JobTraces:
    """For one loop. Times are of the steady clock, but for the one that a work item tells."""

    def __init__(self, tracing: Tracing, clock: Clock, pool: str) -> None:
        self._tracing = tracing
        self._clock = clock
        self._pool = pool

    def waited(self, job: Job) -> None:
        """From admission until its first picture had a slot, which is now."""
        if (trace := self._of(job)) is not None:
            accepted_ns = int(job.item.accepted_at.timestamp() * _NS)
            self._tell("queue", "queue", job, trace, (accepted_ns, self._wall_ns(self._clock.steady())))

    def drew(self, job: Job, n: int, joined_at: float, drawn_at: float | None, share: Share, flaw: Flaw | None) -> None:
        """A picture ended, now. What of it held a slot and what came after are spans of their own."""
        if (trace := self._of(job)) is None:
            return
        name = f"picture-{n}"
        began, ended = self._wall_ns(joined_at), self._wall_ns(self._clock.steady())
        drawn = ended if drawn_at is None else self._wall_ns(drawn_at)
        cost: dict[str, str | int | float] = {
            f"kiln.{stage}_seconds": round(seconds, 6) for stage, seconds in share.timings.items()
        }
        cost |= {"kiln.picture": n, "kiln.gpu_seconds": round(share.gpu_seconds, 6)}
        cost |= {"kiln.batch_size": share.batch_size, "kiln.bucket": share.bucket}
        cost |= {"kiln.peak_vram_bytes": share.peak_vram_bytes}
        if flaw is not None:
            cost["kiln.code"] = flaw.code
        within = trace.at(self._tell("picture", name, job, trace, (began, ended), cost, failed=flaw is not None))
        self._tell("slot", f"{name}/slot", job, within, (began, drawn))
        if drawn_at is not None:
            self._tell("finish", f"{name}/finish", job, within, (drawn, ended))

    def stored(self, job: Job, began: float) -> None:
        """Its pictures and its outcome are in the store, now."""
        if (trace := self._of(job)) is not None:
            self._tell("store", "store", job, trace, (self._wall_ns(began), self._wall_ns(self._clock.steady())))

    def settled(self, job: Job, status: str, began: float) -> None:
        """Its result is published, now. Who reads the result goes on from this span."""
        if (trace := self._of(job)) is not None:
            times = self._wall_ns(began), self._wall_ns(self._clock.steady())
            failed = status in ("failed", "expired")
            self._tell(SETTLE, SETTLE, job, trace, times, {"kiln.status": status}, failed=failed)

    def _of(self, job: Job) -> TraceContext | None:
        return job.work.trace if self._tracing.on else None

    def _tell(
        self,
        name: str,
        key: str,
        job: Job,
        trace: TraceContext,
        times_ns: tuple[int, int],
        attributes: Mapping[str, str | int | float] | None = None,
        *,
        failed: bool = False,
    ) -> str:
        attempt = 1 if key == SETTLE else job.run.attempt
        span_id = span_id_of(job.id, key, attempt)
        about: dict[str, str | int | float] = {"kiln.job_id": job.id, "kiln.pool": self._pool, "kiln.lane": job.lane}
        about["kiln.attempt"] = attempt
        if job.work.item is not None:
            about |= {"kiln.tenant": job.work.item.tenant, "kiln.config": job.work.item.config.label}
        self._tracing.span(name, trace, span_id, times_ns, about | dict(attributes or {}), failed=failed)
        return span_id

    def _wall_ns(self, steady: float) -> int:
        return self._clock.wall_ms() * 1_000_000 - int((self._clock.steady() - steady) * _NS)


def result_headers(job_id: str, trace: TraceContext | None) -> tuple[tuple[str, bytes], ...]:
    """Of a job's result, whoever publishes it; also where no spans are told here."""
    if trace is None:
        return ()
    return ((HEADER_TRACE, trace.at(span_id_of(job_id, SETTLE)).header().encode()),)

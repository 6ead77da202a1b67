"""From a finished draft to what is logged: the decision, the work it asks for, the event that ends it."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from admission.draft import Cancellation, Draft, Refusal
from admission.stages.quota import uncharged
from admission.state import State
from admission.verdict import Decided
from admission.world import World
from schemas.composed import work_text
from schemas.decision import Decision
from schemas.names import seed_of
from schemas.request import SEED_MAX
from schemas.result import Cancelled, Rejected

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def accepted(draft: Draft) -> Decided:
    """The work item is complete and its text final: a takeover produces the same bytes again."""
    decision = Decision(
        number=draft.number,
        tenant=draft.tenant,
        key=draft.key,
        request_id=draft.request_id,
        job_id=draft.job,
        verdict="accepted",
        payload_digest=draft.digest,
        offset=draft.arrival.offset,
        appended_ms=draft.appended_ms,
        price_gpu_seconds=draft.gpu_seconds,
        bucket_after=draft.bookings[0].levels.tokens,
        deadline_ms=draft.deadline_ms,
        route=draft.route,
        work=_work(draft),
    )
    return Decided(decision, draft.name, None, draft.clock_ms, draft.config, draft.degraded_from, draft.bookings)


def rejected(draft: Draft, refusal: Refusal, state: State, world: World) -> Decided:
    """Final: to try again the sender uses a new request id."""
    result = Rejected(
        tenant=draft.tenant,
        request_id=draft.request_id,
        job_id=draft.job,
        retry_of=draft.retry_of,
        metadata=draft.metadata,
        finished_at=_at(draft.now_ms),
        code=refusal.code,
        message=refusal.message,
        field=refusal.field,
        retry_after_seconds=refusal.retry_after_seconds,
    )
    return _ended(draft, result, state, world)


def cancelled(draft: Draft, cancellation: Cancellation, state: State, world: World) -> Decided:
    """The cancel, or the drop, was known before the request was read."""
    message = "cancelled before it was admitted"
    if cancellation.because:
        message = f"{message}: {cancellation.because}"
    result = Cancelled(
        tenant=draft.tenant,
        request_id=draft.request_id,
        job_id=draft.job,
        retry_of=draft.retry_of,
        metadata=draft.metadata,
        finished_at=_at(draft.now_ms),
        message=message,
    )
    return _ended(draft, result, state, world)


def _ended(draft: Draft, result: Rejected | Cancelled, state: State, world: World) -> Decided:
    """At the door, and not charged."""
    bookings = uncharged(draft, state, world)
    decision = Decision(
        number=draft.number,
        tenant=draft.tenant,
        key=draft.key,
        request_id=draft.request_id,
        job_id=result.job_id,
        verdict=result.status,
        code=result.code if isinstance(result, Rejected) else None,
        message=result.message,
        payload_digest=draft.digest,
        offset=draft.arrival.offset,
        appended_ms=draft.appended_ms,
        bucket_after=bookings[0].levels.tokens if bookings else None,
    )
    return Decided(decision, draft.name, result, draft.clock_ms, bookings=bookings)


def _work(draft: Draft) -> str:
    request = draft.request
    # 0 is a seed like any other. A drawn one leaves room for the seeds of the pictures after the first.
    seed = min(seed_of(draft.job), SEED_MAX - request.images + 1) if request.seed is None else request.seed
    return work_text(
        job_id=draft.job,
        request=request,
        config=draft.config.text,
        config_hash=draft.config.config_hash,
        degraded_from=draft.degraded_from,
        seed=seed,
        lane=draft.lane,
        deadline=_stamp(draft.deadline_ms),
        results_partition=draft.arrival.partition,
        price_gpu_seconds=draft.gpu_seconds,
        accepted_at=_stamp(draft.now_ms),
        appended_ms=draft.arrival.appended_ms,
    )


def _at(milliseconds: int) -> datetime:
    """Exact, where fromtimestamp() would round."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


@lru_cache(maxsize=64)
def _stamp(milliseconds: int) -> str:
    """Most of a batch are accepted at one moment, and due at another."""
    return _at(milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")

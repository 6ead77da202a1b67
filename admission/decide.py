"""May it enter? One pure function: no Kafka, no clock, no input or output."""

from collections.abc import Callable

from admission.arrival import Arrival
from admission.cancelling import cancel
from admission.draft import Cancellation, Draft, Refusal
from admission.ending import accepted, cancelled, rejected
from admission.signature import unproven
from admission.stages.config import config
from admission.stages.deadline import deadline
from admission.stages.decode import Malformed, Named, decode
from admission.stages.dimensions import dimensions
from admission.stages.dropped import dropped
from admission.stages.lane import lane
from admission.stages.limits import limits
from admission.stages.memory import memory
from admission.stages.overload import overload
from admission.stages.paused import paused
from admission.stages.policy import policy
from admission.stages.price import price
from admission.stages.quota import quota
from admission.stages.recalled import recalled
from admission.stages.route import route
from admission.stages.tenant import tenant
from admission.stages.tokens import tokens
from admission.state import State
from admission.verdict import DeadLetter, Decided, Repeat, SendHome, Verdict
from admission.window import Name
from admission.world import World
from schemas.cancel import asks_for_cancel
from schemas.names import job_id, request_name
from schemas.partition import partition_of

STAGES: tuple[Callable[[Draft, State, World], Refusal | Cancellation | None], ...] = (
    recalled,
    limits,
    tenant,
    config,
    dropped,
    paused,
    dimensions,
    tokens,
    policy,
    price,
    lane,
    memory,
    overload,
    deadline,
    quota,
    route,
)


def decide(arrival: Arrival, state: State, world: World, now_ms: int) -> Verdict:
    """What becomes of `arrival`. Changes nothing: State.apply() makes it true. Raises nothing because of what was sent,
    and StateRefused where the state cannot tell a repeat.

    `now_ms` is the wall clock, for deadlines. Quota time and the window of names follow the record's LogAppendTime. An
    invalid record sent twice is refused once, so its name is looked up before its content is judged.
    """
    clock_ms = state.clock_after(arrival.appended_ms, now_ms)
    named = decode(arrival.value)
    if isinstance(named, Malformed):
        return DeadLetter("malformed", named.message, clock_ms=clock_ms)

    doubt = unproven(arrival, named.tenant, world, clock_ms)
    if doubt is not None:
        return DeadLetter("unproven", doubt, clock_ms=clock_ms)

    home = partition_of(named.tenant.encode(), world.catalogue.requests_partitions)
    if home != arrival.partition:
        return SendHome(home, clock_ms)
    if not isinstance(named.body, Refusal) and asks_for_cancel(named.body):
        return cancel(named.body, arrival, state, world, clock_ms)

    name = request_name(named.tenant, named.request_id)
    known = state.name(name, clock_ms)
    if known is not None:
        return _again(known, named.digest, clock_ms)

    return judge(draft_of(named, name, arrival, state, now_ms, clock_ms), state, world)


def draft_of(named: Named, name: bytes, arrival: Arrival, state: State, now_ms: int, clock_ms: int) -> Draft:
    """A request that is about to be judged: at home, and not seen before. `clock_ms`: quota time after it."""
    return Draft(
        arrival=arrival,
        tenant=named.tenant,
        request_id=named.request_id,
        name=name,
        body=named.body,
        digest=named.digest,
        now_ms=now_ms,
        clock_ms=clock_ms,
        job=job_id(state.birth, named.tenant, named.request_id, arrival.partition, arrival.offset),
        number=state.decided + 1,
    )


def judge(draft: Draft, state: State, world: World) -> Decided:
    """By the stages, the first that ends it."""
    for stage in STAGES:
        end = stage(draft, state, world)
        if end is None:
            continue
        if isinstance(end, Cancellation):
            return cancelled(draft, end, state, world)
        return rejected(draft, end, state, world)
    return accepted(draft)


def _again(known: Name, digest: str, clock_ms: int) -> Repeat | DeadLetter:
    if known.digest == digest:
        return Repeat(known.job_id, clock_ms)
    message = f"another payload came under this name at offset {known.offset}; send changes under a new request id"
    return DeadLetter("conflicting_duplicate", message, known.offset, clock_ms)

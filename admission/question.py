"""What would become of a request that nobody has sent. Pure: the same stages, and nothing is written."""

from dataclasses import dataclass

from admission.arrival import Arrival
from admission.decide import draft_of, judge
from admission.draft import Draft
from admission.estimate import Estimate, wait_of
from admission.stages.decode import Malformed, decode
from admission.state import State
from admission.verdict import Decided
from admission.world import World
from schemas.codec import encode
from schemas.names import request_name
from schemas.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """`draft` has what the stages came to until one refused; `wait` is None where that was before its pool was known.

    Who speaks for the tenant is not asked, nor whether the request id was used before.
    """

    draft: Draft
    decided: Decided
    wait: Estimate | None

    @property
    def accepted(self) -> bool:
        return self.decided.decision.verdict == "accepted"


def ask(request: GenerationRequest, state: State, world: World, now_ms: int) -> Answer:
    """`state`: of the tenant's home partition, or as much of it as is the tenant's. It is not changed."""
    value = encode(request)
    named = decode(value)
    assert not isinstance(named, Malformed), "a request has a name"
    arrival = Arrival(state.partition, state.next, now_ms, None, value)
    name = request_name(named.tenant, named.request_id)
    draft = draft_of(named, name, arrival, state, now_ms, state.clock_after(now_ms, now_ms))
    decided = judge(draft, state, world)
    known = hasattr(draft, "pool")
    return Answer(draft, decided, wait_of(draft, state, world) if known else None)

"""A tenant takes a request of its own back. It came as the request did, so it may do no more than its sender may.

It is decided behind its request: what is not outstanding then has ended, was never accepted, or stands further on in
the log, where no cancel reaches it. So only what can end is written to cancels, and whoever asks for cancels without
end fills nobody's memory.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from admission.arrival import Arrival
from admission.state import State
from admission.verdict import DeadLetter, TakeBack
from admission.world import World
from schemas.cancel import CancelRequest
from schemas.names import request_name
from schemas.request import first_problem


def cancel(
    body: Mapping[str, Any], arrival: Arrival, state: State, world: World, clock_ms: int
) -> TakeBack | DeadLetter:
    """What becomes of a record that asks for a cancel. It must be exactly that: the name in it is its request's, so
    there is none under which it could be refused."""
    try:
        asked = CancelRequest.model_validate(body)
    except ValidationError as error:
        return DeadLetter("malformed", f"a cancel: {first_problem(error)[1]}", clock_ms=clock_ms)
    if arrival.key is not None and arrival.key != asked.tenant.encode():
        message = "a cancel: the record's key differs from the tenant; send the tenant, or no key"
        return DeadLetter("malformed", message, clock_ms=clock_ms)
    name = request_name(asked.tenant, asked.request_id)
    held = state.holder(name)
    if held is None or world.cancelled.get(name, held.appended_ms - 1) >= held.appended_ms:
        return TakeBack(None, clock_ms)
    return TakeBack(name, clock_ms)

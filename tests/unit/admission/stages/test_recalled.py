"""A request whose cancel came before it."""

from admission.decide import decide
from admission.verdict import Decided
from schemas.names import request_name
from schemas.result import Cancelled
from tests.unit.admission.scene import NOW_MS, TENANT, accepted, arrival, decided, fresh_state, make_world, request


def test_a_request_whose_cancel_is_known_ends_here() -> None:
    world = make_world(cancelled={request_name(TENANT, "r1"): NOW_MS})
    verdict = decide(arrival(request()), fresh_state(), world, NOW_MS)
    assert decided(verdict).verdict == "cancelled"
    assert isinstance(verdict, Decided)
    assert isinstance(verdict.result, Cancelled)


def test_a_cancel_does_not_reach_a_later_request_of_that_name() -> None:
    world = make_world(cancelled={request_name(TENANT, "r1"): NOW_MS - 1})
    accepted(decide(arrival(request()), fresh_state(), world, NOW_MS))

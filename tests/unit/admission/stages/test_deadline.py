"""By when it must be done."""

from admission.decide import decide
from tests.unit.admission.scene import NOW_MS, arrival, decided, fresh_state, make_world, rejected, request

WORLD = make_world()


def test_a_deadline_is_taken_and_capped() -> None:
    soon = decided(decide(arrival(request(deadline="2027-01-15T08:00:02Z")), fresh_state(), WORLD, NOW_MS))
    assert soon.deadline_ms == NOW_MS + 2000
    far = decided(decide(arrival(request(deadline="9999-12-31T23:59:59-14:00")), fresh_state(), WORLD, NOW_MS))
    assert far.deadline_ms == NOW_MS + 7 * 86_400_000


def test_a_deadline_before_one_picture_can_be_done_is_refused() -> None:
    value = request(deadline="2027-01-15T08:30:00Z", config={"name": "slow"})
    result = rejected(decide(arrival(value), fresh_state(), WORLD, NOW_MS))
    assert (result.code, result.field) == ("deadline_infeasible", "deadline")

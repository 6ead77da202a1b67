"""A tenant's fair share of a lane."""

import pytest

from schemas.tenants import Quota, Tenants
from tests.unit.admission.scene import TENANT, Partition, accepted, decided, make_world, request

PRICE = 2.0  # GPU-seconds of the scene's config


def partition(bound: float | None) -> Partition:
    quota = Quota(per_second=100.0, burst=100.0, outstanding_gpu_seconds=bound)
    return Partition(make_world(tenants=Tenants(tenants={TENANT: quota})))


def lane_of(where: Partition, name: str, **more: object) -> str:
    """The lane that a request is sent to."""
    verdict = where.send(request(name, **more))
    lane = accepted(verdict).lane
    route = decided(verdict).route
    assert route is not None
    assert route.lane == lane, "the work says where it waits"
    return lane


def test_what_is_above_the_share_waits_in_bulk_and_what_ends_makes_room() -> None:
    where = partition(2.5 * PRICE)
    assert [lane_of(where, f"r{n}") for n in range(4)] == ["standard", "standard", "bulk", "bulk"]
    where.finish(next(iter(where.state.outstanding)))
    assert lane_of(where, "r4") == "standard"


def test_each_lane_has_its_own_share() -> None:
    where = partition(PRICE)
    assert lane_of(where, "r1") == "standard"
    assert lane_of(where, "r2", priority="interactive") == "interactive"
    assert lane_of(where, "r3", priority="interactive") == "bulk"
    assert lane_of(where, "r4", priority="bulk") == "bulk"


def test_one_that_is_larger_than_the_share_has_its_turn() -> None:
    where = partition(PRICE)
    assert lane_of(where, "r1", images=3) == "standard"
    assert lane_of(where, "r2") == "bulk"


@pytest.mark.parametrize("images", [1, 4])
def test_without_a_bound_nothing_overflows(images: int) -> None:
    where = partition(None)
    assert {lane_of(where, f"r{n}", images=images) for n in range(20)} == {"standard"}

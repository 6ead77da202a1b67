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


def test_a_tenant_has_one_share_however_many_keys_ask_for_it() -> None:
    """Case ADM-04: before the one request of another, no more than a share of a flood waits in its lane."""
    quota = Quota(per_second=10_000.0, burst=10_000.0, outstanding_gpu_seconds=4 * PRICE)
    where = Partition(make_world(tenants=Tenants(default=quota)))
    lanes = [lane_of(where, f"r{n}", key=f"key{n % 50}") for n in range(100)]
    assert (lanes[:4], set(lanes[4:])) == (["standard"] * 4, {"bulk"})
    assert lane_of(where, "r1", tenant="ivan") == "standard"


def test_the_share_that_is_taken_is_known_to_a_successor() -> None:
    """Case ADM-05: also to one that finds a deep backlog."""
    where = partition(2 * PRICE)
    assert [lane_of(where, f"r{n}") for n in range(40)] == ["standard"] * 2 + ["bulk"] * 38
    where.state, _ = where.take_over(compacted=True)
    assert lane_of(where, "r40") == "bulk"
    where.finish(next(iter(where.state.outstanding)))
    assert lane_of(where, "r41") == "standard"


def test_one_that_is_larger_than_the_share_has_its_turn() -> None:
    where = partition(PRICE)
    assert lane_of(where, "r1", images=3) == "standard"
    assert lane_of(where, "r2") == "bulk"


@pytest.mark.parametrize("images", [1, 4])
def test_without_a_bound_nothing_overflows(images: int) -> None:
    where = partition(None)
    assert {lane_of(where, f"r{n}", images=images) for n in range(20)} == {"standard"}

"""What becomes of requests when more waits than can be done in good time."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from admission.settings import AdmissionLimits
from admission.stages.overload import bounds
from admission.verdict import Decided, Repeat
from admission.wait import Wait
from admission.world import World
from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.control import Pause, Subject
from schemas.pools import Pool, Pools
from schemas.result import Rejected
from schemas.stops import Dropped
from schemas.tenants import Quota, Tenants
from schemas.topics import Catalogue, TopicSettings
from schemas.work import WorkItem
from tests.unit.admission import scene
from tests.unit.admission.scene import NOW_MS, PARTITIONS, TENANT, Partition, config_file, make_world, request

FULL = 4  # GPUs that the pool may have


def config(name: str, seconds: float, *, sibling: str | None = None, **version: Any) -> ConfigFile:
    price = {"gpu_seconds": seconds, "vram_bytes": 1 << 30}
    file = config_file(name, **{"price": price, **version})
    return file.model_copy(update={"degrades_to": {1: sibling}}) if sibling else file


def pool(**changes: Any) -> Pool:
    given = {"gpu_product": "H200", "vram_bytes": 8 << 30, "price_usd_per_hour": 1.0, "replicas_max": FULL, **changes}
    return Pool.model_validate(given)


def world(
    *configs: ConfigFile,
    waits: Mapping[str, float] | None = None,
    pools: Mapping[str, Pool] | None = None,
    **limits: Any,
) -> World:
    """`waits`: pool -> seconds that a standard request waits there at full scale."""
    pools = pools or {"default": pool()}
    told = {name: Wait({"standard": seconds * pools[name].replicas_max}) for name, seconds in (waits or {}).items()}
    return replace(
        make_world(tenants=Tenants(tenants={TENANT: Quota(per_second=1000, burst=1000)}), **limits),
        catalogue=Catalogue(TopicSettings(requests_partitions=PARTITIONS), Pools(pools=dict(pools))),
        configs=ConfigCatalogue(configs),
        work_partitions={name: each.partitions for name, each in pools.items()},
        waits=told,
    )


def degradable(**changes: Any) -> dict[str, Any]:
    return request(may_degrade=True, config={"name": "dear"}, **changes)


DEAR, CHEAP = config("dear", 8.0, sibling="cheap@1", steps=16), config("cheap", 2.0)


def accepted(around: World, wish: dict[str, Any]) -> WorkItem:
    return scene.accepted(Partition(around).send(wish))


def refused(around: World, wish: dict[str, Any]) -> Rejected:
    return scene.rejected(Partition(around).send(wish))


@pytest.mark.parametrize(("wait", "degrades"), [(0, False), (60, False), (61, True), (3600, True)])
def test_above_the_bound_what_may_be_degraded_is(wait: float, degrades: bool) -> None:
    item = accepted(world(DEAR, CHEAP, waits={"default": wait}), degradable(images=3))
    if degrades:
        assert (item.config.label, item.degraded_from, item.price_gpu_seconds) == ("cheap@1", "dear@1", 6.0)
        assert item.config_hash == item.config.config_hash
    else:
        assert (item.config.label, item.degraded_from, item.price_gpu_seconds) == ("dear@1", None, 24.0)


def test_what_may_not_be_degraded_waits_as_it_is() -> None:
    item = accepted(world(DEAR, CHEAP, waits={"default": 3000}), request(config={"name": "dear"}))
    assert (item.config.label, item.degraded_from) == ("dear@1", None)


@pytest.mark.parametrize(
    "configs",
    [
        pytest.param([config("dear", 8.0)], id="no sibling"),
        pytest.param([DEAR, config("cheap", 2.0, price={"gpu_seconds": 2.0, "vram_bytes": 9 << 30})], id="too large"),
        pytest.param([DEAR, config("cheap", 2.0, pool="nowhere")], id="a pool that is not there"),
        pytest.param([DEAR, config("cheap", 2.0, max_images=2)], id="fewer images"),
        pytest.param([DEAR, config("cheap", 8.0)], id="not cheaper"),
    ],
)
def test_a_sibling_that_would_not_do_is_not_taken(configs: list[ConfigFile]) -> None:
    item = accepted(world(*configs, waits={"default": 100}), degradable(images=3))
    assert (item.config.label, item.degraded_from) == ("dear@1", None)


def test_a_sibling_that_operators_stopped_is_not_taken() -> None:
    around, cheap = world(DEAR, CHEAP, waits={"default": 100}), Subject("config", "cheap")
    for stopped in (replace(around, paused={cheap: Pause()}), replace(around, dropped={cheap: Dropped(NOW_MS)})):
        assert accepted(stopped, degradable()).config.label == "dear@1"


@pytest.mark.parametrize(("there", "degrades"), [(10, True), (200, False)])
def test_a_sibling_of_another_pool_is_taken_where_less_waits(there: float, degrades: bool) -> None:
    around = world(
        DEAR,
        config("cheap", 2.0, pool="small"),
        pools={"default": pool(), "small": pool(gpu_product="L4")},
        waits={"default": 100, "small": there},
    )
    verdict = Partition(around).send(degradable())
    assert isinstance(verdict, Decided)
    assert verdict.decision.route is not None
    assert verdict.decision.route.pool == ("small" if degrades else "default")
    assert verdict.degraded_from == ("dear@1" if degrades else None)


def test_what_waits_no_longer_is_told_by_the_gpus_of_its_pool() -> None:
    """More work may be done earlier, where more GPUs do it."""
    pools = {"default": pool(), "wide": pool(replicas_max=16, partitions=32)}
    around = world(DEAR, config("cheap", 2.0, pool="wide"), pools=pools, waits={"default": 100, "wide": 50})
    assert accepted(around, degradable()).degraded_from == "dear@1"


@pytest.mark.parametrize(("wait", "code"), [(70, None), (80, "overloaded")])
def test_who_is_degraded_to_another_pool_is_held_against_that_one(wait: float, code: str | None) -> None:
    pools = {"default": pool(), "small": pool(refuse_wait_seconds=75)}
    around = world(DEAR, config("cheap", 2.0, pool="small"), pools=pools, waits={"default": 100, "small": wait})
    if code is None:
        assert accepted(around, degradable()).config.pool == "small"
    else:
        assert "pool 'small' takes 80 s" in refused(around, degradable()).message


def test_a_sibling_that_was_measured_to_cost_more_is_not_taken() -> None:
    around = world(DEAR, CHEAP, waits={"default": 100})
    dear, cheap = (file.versions[1] for file in (DEAR, CHEAP))
    prices = {("default", dear.config_hash): 3.0, ("default", cheap.config_hash): 3.5}
    assert accepted(replace(around, prices=prices), degradable()).degraded_from is None
    prices[("default", cheap.config_hash)] = 2.5
    item = accepted(replace(around, prices=prices), degradable(images=2))
    assert (item.degraded_from, item.price_gpu_seconds) == ("dear@1", 5.0)


def test_a_sibling_of_a_size_that_is_not_drawn_here_is_not_taken() -> None:
    around = world(DEAR, config("cheap", 2.0, width=512, height=512), waits={"default": 100}, pixels_max=64 * 64)
    assert accepted(around, degradable()).degraded_from is None


def test_a_degraded_request_that_fits_its_tenants_share_again_stays_in_its_lane() -> None:
    quota = Quota(per_second=1000, burst=1000, outstanding_gpu_seconds=11)
    around = replace(
        world(DEAR, CHEAP),
        tenants=Tenants(tenants={TENANT: quota}),
        waits={"default": Wait({"standard": 400.0, "bulk": 400.0})},
    )
    partition = Partition(around)
    lanes = []
    for number, images in enumerate((3, 2, 3)):
        item = scene.accepted(partition.send(degradable(request_id=f"r{number}", images=images)))
        lanes.append((item.lane, item.price_gpu_seconds))
    assert lanes == [("standard", 6.0), ("standard", 4.0), ("bulk", 6.0)]


def test_degrading_to_another_pool_saves_a_request_from_being_refused() -> None:
    pools = {"default": pool(refuse_wait_seconds=90), "small": pool()}
    around = world(DEAR, config("cheap", 2.0, pool="small"), pools=pools, waits={"default": 100})
    assert accepted(around, degradable()).degraded_from == "dear@1"
    assert refused(around, request(config={"name": "dear"})).code == "overloaded"


def test_above_the_higher_bound_requests_are_refused_with_when_to_come_back() -> None:
    around = world(DEAR, CHEAP, waits={"default": 4000})
    for wish in (degradable(), request(config={"name": "dear"})):
        result = refused(around, wish)
        assert result.code == "overloaded"
        assert "4000 s with all 4 GPUs" in result.message
        assert result.retry_after_seconds is not None
        assert 400 <= result.retry_after_seconds <= 400 + 900


def test_those_refused_together_do_not_all_come_back_at_once() -> None:
    partition = Partition(world(CHEAP, waits={"default": 4000}))
    times = []
    for number in range(200):
        result = scene.rejected(partition.send(request(f"r{number}", config={"name": "cheap"})))
        times.append(result.retry_after_seconds or 0.0)
    quarters = {int((each - 400) // 225) for each in times}
    assert quarters == {0, 1, 2, 3}
    again = refused(partition.world, request("r7", config={"name": "cheap"}))
    assert again.retry_after_seconds == times[7]


def test_a_burst_on_one_partition_does_not_slip_past_the_bound() -> None:
    """Nothing is told yet of what comes within a moment: the partition counts its own work as it is."""
    partition = Partition(world(CHEAP, refuse_wait_seconds=20, degrade_wait_seconds=20))
    verdicts = [partition.send(request(f"r{n}", config={"name": "cheap"})) for n in range(200)]
    taken = [each for each in verdicts if isinstance(each, Decided) and each.result is None]
    assert len(taken) == 20 * FULL / 2 + 1


def test_what_is_refused_costs_nothing_and_what_is_degraded_costs_what_it_is() -> None:
    around = world(DEAR, CHEAP, waits={"default": 4000})
    before = Partition(around)
    before.send(degradable())
    account = before.state.account(TENANT)
    assert account is not None
    assert account.tokens == 1000
    assert accepted(world(DEAR, CHEAP, waits={"default": 100}), degradable()).price_gpu_seconds == 2.0


def test_a_repeat_of_a_degraded_request_is_silent_though_the_pool_is_idle_by_then() -> None:
    partition = Partition(world(DEAR, CHEAP, waits={"default": 100}))
    first = scene.accepted(partition.send(degradable()))
    partition.world = replace(partition.world, waits={})
    again = partition.send(degradable())
    assert isinstance(again, Repeat)
    assert again.job_id == first.job_id


def test_a_pool_has_bounds_of_its_own() -> None:
    limits = AdmissionLimits()
    assert bounds(pool(), limits) == (60, 3600)
    assert bounds(pool(degrade_wait_seconds=5), limits) == (5, 3600)
    assert bounds(pool(refuse_wait_seconds=9), limits) == (60, 9)


def deadline_in(seconds: float) -> str:
    return datetime.fromtimestamp(NOW_MS / 1000 + seconds, tz=UTC).isoformat()


@pytest.mark.parametrize(("seconds", "feasible"), [(51, False), (53, True)])
def test_a_deadline_that_the_work_before_it_does_not_leave_time_for_is_refused(seconds: float, feasible: bool) -> None:
    around = world(CHEAP, waits={"default": 50})
    wish = request(config={"name": "cheap"}, deadline=deadline_in(seconds))
    if feasible:
        assert accepted(around, wish).deadline.timestamp() * 1000 == NOW_MS + seconds * 1000
        return
    result = refused(around, wish)
    assert (result.code, result.field) == ("deadline_infeasible", "deadline")
    assert "50 s with all 4 GPUs" in result.message


def test_pictures_of_a_request_may_share_a_batch_so_one_must_be_in_time() -> None:
    wish = request(config={"name": "cheap"}, images=4, deadline=deadline_in(53))
    assert accepted(world(CHEAP, waits={"default": 50}), wish).images == 4


def test_a_degraded_request_is_held_against_its_deadline_as_what_it_is() -> None:
    wish = degradable(deadline=deadline_in(105))
    assert refused(world(DEAR, waits={"default": 100}), wish).code == "deadline_infeasible"
    assert accepted(world(DEAR, CHEAP, waits={"default": 100}), wish).degraded_from == "dear@1"


def test_interactive_work_is_not_refused_for_what_waits_in_bulk() -> None:
    around = replace(world(CHEAP), waits={"default": Wait({"bulk": 1e6})})
    wish: dict[str, Any] = {"config": {"name": "cheap"}, "deadline": deadline_in(10)}
    assert accepted(around, request(priority="interactive", **wish)).lane == "interactive"
    assert refused(around, request(priority="bulk", **wish)).code == "overloaded"

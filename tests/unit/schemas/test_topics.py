import pytest
from pydantic import ValidationError

from schemas.pools import Pool, Pools
from schemas.topics import Catalogue, TopicSettings

POOL = Pool(gpu_product="H200", vram_bytes=1 << 30, price_usd_per_hour=1.0, partitions=8)


def catalogue(**settings: object) -> Catalogue:
    return Catalogue(TopicSettings.model_validate(settings), Pools(pools={"a": POOL, "b": POOL}))


def test_every_name_begins_with_the_prefix() -> None:
    specs = list(catalogue(prefix="test.x").specs())
    assert all(spec.name.startswith("test.x.") for spec in specs)
    assert len({spec.name for spec in specs}) == len(specs)


def test_what_shares_a_partition_has_the_same_count() -> None:
    house = catalogue(requests_partitions=6)
    partitions = {spec.name: spec.partitions for spec in house.specs()}
    assert {
        partitions[name]
        for name in (house.requests, house.decisions, house.tenants, house.usage, house.results, house.progress)
    } == {6}
    for pool in ("a", "b"):
        counts = {partitions[house.work(pool, lane)] for lane in ("interactive", "standard", "bulk")}
        assert counts | {partitions[house.ledger(pool)]} == {8}


def test_times_are_the_broker_s_where_they_decide_something() -> None:
    house = catalogue()
    stamped = {spec.name for spec in house.specs() if spec.config.get("message.timestamp.type") == "LogAppendTime"}
    assert stamped == {house.requests, house.cancels, house.control}


def test_sizes_leave_room_for_what_is_wrapped() -> None:
    house = catalogue()
    sizes = {spec.name: int(spec.config["max.message.bytes"]) for spec in house.specs()}
    assert sizes.pop(house.requests) == 1 << 20
    assert set(sizes.values()) == {4 << 20}


def test_states_are_compacted_and_logs_are_not() -> None:
    house = catalogue()
    compacted = {spec.name for spec in house.specs() if spec.config["cleanup.policy"] == "compact"}
    assert compacted == {house.tenants, house.control, house.observations, house.ledger("a"), house.ledger("b")}


def test_what_is_deleted_leaves_soon_after_its_retention() -> None:
    """A segment is deleted whole, and not before its youngest record may go."""
    kept = {
        spec.name: (int(spec.config["retention.ms"]), int(spec.config["segment.ms"]))
        for spec in catalogue(dead_letters_retention_ms=1000).specs()
        if "retention.ms" in spec.config
    }
    day = 86_400_000
    assert kept["kiln.requests"] == (7 * day, 7 * day // 8)
    assert kept["kiln.progress"] == (day // 24, day // 24 // 8)
    assert kept["kiln.uptime"] == (90 * day, 7 * day)
    assert kept.pop("kiln.dead-letters") == (1000, 60_000)
    assert all(segment <= retention / 8 for retention, segment in kept.values())


def test_ids_are_named_after_their_input_partition() -> None:  # case AIO-10
    house = catalogue()
    ids = [house.admission_transactional_id(partition) for partition in range(4)]
    ids += [house.gpu_transactional_id(pool, index) for pool in ("a", "b") for index in range(8)]
    assert len(set(ids)) == 20
    assert house.gpu_group("a") != house.gpu_group("b")


def test_deployments_of_one_cluster_share_no_group_and_fence_nobody_of_another() -> None:
    """Case FST-19: an id says which deployment, which service, which pool and which partition."""

    def names(house: Catalogue) -> set[str]:
        ids = {house.admission_transactional_id(n) for n in range(4)}
        ids |= {house.gpu_transactional_id(pool, n) for pool in house.pools for n in range(4)}
        return ids | {house.admission_group, house.gate_group} | {house.gpu_group(pool) for pool in house.pools}

    houses = [names(catalogue(prefix=prefix)) for prefix in ("staging", "prod", "prod-2")]
    assert len(set.union(*houses)) == sum(map(len, houses)) == 3 * (4 + 2 * 4 + 2 + 2)


@pytest.mark.parametrize(
    "settings", [{"prefix": ""}, {"prefix": "a b"}, {"prefix": "x" * 61}, {"requests_partitions": 0}]
)
def test_settings_out_of_bounds_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        catalogue(**settings)


def test_a_tenant_with_a_topic_of_its_own_has_one_by_its_name() -> None:
    house = Catalogue(TopicSettings(tenant_topic_partitions=3), Pools(pools={"a": POOL}), ["atelier"])
    (own,) = [spec for spec in house.specs() if spec.name == "kiln.requests.atelier"]
    assert own.partitions == 3
    assert own.config["message.timestamp.type"] == "LogAppendTime"
    assert int(own.config["max.message.bytes"]) < 1 << 20  # with the gate's header it must go into requests

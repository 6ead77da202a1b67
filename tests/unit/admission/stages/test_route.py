from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from admission.decide import decide
from admission.stages.route import preferred, way_of
from admission.verdict import Decided
from schemas.catalogue import ConfigCatalogue
from schemas.config import GenerationConfig
from schemas.control import Placement, Share
from schemas.request import ConfigRef
from tests.unit.admission.scene import (
    NOW_MS,
    arrival,
    config_file,
    decided,
    fresh_state,
    make_world,
    rejected,
    request,
)

HASHES = [f"{n:064x}" for n in range(800)]


def test_equal_configs_share_a_partition() -> None:
    assert {preferred(HASHES[0], 8) for _ in range(10)} == {preferred(HASHES[0], 8)}


def test_the_choice_is_the_same_in_every_process_and_release() -> None:
    assert [preferred(each, 8) for each in HASHES[:8]] == [6, 2, 4, 4, 4, 2, 6, 1]


def test_many_configs_spread_over_all_partitions() -> None:
    counts = Counter(preferred(each, 8) for each in HASHES)
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1.5 * len(HASHES) / 8


def test_a_partition_more_takes_its_share_and_moves_nothing_else() -> None:
    moved = [each for each in HASHES if preferred(each, 8) != preferred(each, 9)]
    assert all(preferred(each, 9) == 8 for each in moved)
    assert 0 < len(moved) < 2 * len(HASHES) / 9


def config(name: str = "sketch") -> GenerationConfig:
    found = ConfigCatalogue([config_file(name)]).resolve(ConfigRef(name=name), b"")
    assert isinstance(found, GenerationConfig)
    return found


def table(**said: object) -> Placement:
    return Placement.model_validate({"term": 1, "partitions": 8, "models": {}, **said})


def shares(**weights: float) -> tuple[Share, ...]:
    return tuple(Share(partition=int(at.removeprefix("p")), weight=weight) for at, weight in weights.items())


def test_a_placed_configuration_goes_to_its_place() -> None:
    placed = table(configs={config().config_hash: shares(p5=1.0)}, models={config().model_key: shares(p2=1.0)})
    assert way_of(config(), b"alice/r1", 8, placed).partition == 5


def test_a_hot_configuration_is_spread_by_the_request_s_name_as_its_weights_say() -> None:
    placed = table(configs={config().config_hash: shares(p5=3.0, p6=1.0)})
    ways = Counter(way_of(config(), b"alice/r%d" % n, 8, placed).partition for n in range(2000))
    assert set(ways) == {5, 6}
    assert ways[5] / 2000 == pytest.approx(0.75, abs=0.04)
    again = [way_of(config(), b"alice/r%d" % n, 8, placed) for n in range(20)]
    assert again == [way_of(config(), b"alice/r%d" % n, 8, placed) for n in range(20)]


def test_a_new_configuration_of_a_placed_model_joins_its_model() -> None:
    placed = table(models={config().model_key: shares(p2=1.0, p3=1.0)})
    way = way_of(config(), b"alice/r1", 8, placed)
    assert way.partition in {2, 3}
    assert {way_of(config(), b"alice/r%d" % n, 8, placed) for n in range(50)} == {way}


@pytest.mark.parametrize("placed", [None, table(), table(partitions=16, configs={config().config_hash: shares(p12=1)})])
def test_without_a_word_of_it_or_with_one_for_more_partitions_its_hash_decides(placed: Placement | None) -> None:
    assert way_of(config(), b"alice/r1", 8, placed).partition == preferred(config().config_hash, 8)


def test_a_hash_of_nothing_but_ones_is_drawn_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share of all hashes rounds to 1, of which the logarithm is 0; a sender may choose its names by their hash."""
    ones = SimpleNamespace(digest=lambda: b"\xff" * 8)
    monkeypatch.setattr("admission.stages.route.blake2b", lambda data, digest_size: ones)
    placed = table(configs={config().config_hash: shares(p3=0.5, p4=0.5)})
    assert way_of(config(), b"alice/r1", 8, placed).partition in {3, 4}


def test_a_decision_keeps_the_partition_that_the_table_named() -> None:
    world = make_world()
    placed = table(configs={config().config_hash: shares(p3=1.0)})
    verdict = decide(arrival(request()), fresh_state(), replace(world, placements={"default": placed}), NOW_MS)
    assert isinstance(verdict, Decided)
    assert verdict.decision.route is not None
    assert verdict.decision.route.partition == 3


@pytest.mark.parametrize(("seen", "sentence"), [({}, "no partition to"), ({"default": 3}, "no partition 3")])
def test_a_partition_that_is_not_there_takes_nothing(seen: dict[str, int | None], sentence: str) -> None:
    placed = table(configs={config().config_hash: shares(p3=1.0)})
    world = replace(make_world(work_partitions=seen), placements={"default": placed})
    verdict = decide(arrival(request()), fresh_state(), world, NOW_MS)
    assert isinstance(verdict, Decided)
    assert verdict.decision.code == "pool_unavailable"
    assert sentence in (verdict.decision.message or "")


@pytest.mark.parametrize("seen", [{}, {"default": None}, {"default": 0}])
def test_work_that_nobody_could_append_is_refused(seen: dict[str, int | None]) -> None:
    world = make_world(work_partitions=seen)
    assert rejected(decide(arrival(request()), fresh_state(), world, NOW_MS)).code == "pool_unavailable"


def test_the_very_partition_must_be_there() -> None:
    route = decided(decide(arrival(request()), fresh_state(), make_world(), NOW_MS)).route
    assert route is not None
    fewer = make_world(work_partitions={"default": route.partition})
    assert rejected(decide(arrival(request()), fresh_state(), fewer, NOW_MS)).code == "pool_unavailable"
    enough = make_world(work_partitions={"default": route.partition + 1})
    assert decided(decide(arrival(request()), fresh_state(), enough, NOW_MS)).route == route

import itertools
from collections import defaultdict

import pytest

from admission.placement import Bounds, Unit, place
from schemas.control import WEIGHT_MAX, Placement, Share
from schemas.demand import RATE_MAX


def zipf(models: int, configs: int) -> dict[Unit, float]:
    """Configurations of models, the first of each the hottest."""
    return {Unit(f"m{n % models}", f"{n:04}"): 1 / (n + 1) for n in range(configs)}


def totals(table: Placement, loads: dict[Unit, float]) -> list[float]:
    found = [0.0] * table.partitions
    for unit, load in loads.items():
        for share in table.configs[unit.config_hash]:
            found[share.partition] += load * share.weight
    return found


def test_every_partition_has_as_much_within_the_tolerance() -> None:
    loads = zipf(86, 935)
    found = totals(place(loads, 48, None, Bounds(), term=1), loads)
    assert max(found) <= 1.0501 * sum(found) / 48
    assert sum(found) == pytest.approx(sum(loads.values()), rel=1e-4)


def test_a_model_stands_on_neighbours_and_few_configurations_are_split() -> None:
    table = place(zipf(86, 935), 48, None, Bounds(), term=1)
    for shares in table.models.values():
        numbers = [share.partition for share in shares]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
    split = [shares for shares in table.configs.values() if len(shares) > 1]
    assert len(split) < 48


def test_what_is_hotter_than_a_partition_is_spread() -> None:
    loads = {Unit("hot", "a"): 9.0, Unit("cold", "b"): 1.0}
    table = place(loads, 4, None, Bounds(), term=1)
    assert len(table.configs["a"]) == 4
    assert max(totals(table, loads)) <= 1.05 * 10 / 4


def test_the_same_loads_move_nothing() -> None:
    loads = zipf(20, 100)
    first = place(loads, 12, None, Bounds(), term=1)
    second = place(loads, 12, first, Bounds(), term=2)
    assert (second.term, second.configs) == (2, first.configs)


def test_a_load_that_grows_moves_no_more_than_it_must() -> None:
    loads = zipf(20, 100)
    first = place(loads, 12, None, Bounds(), term=1)
    loads[Unit("m7", "0007")] += 0.3
    second = place(loads, 12, first, Bounds(), term=2)
    moved = [digest for digest in first.configs if first.configs[digest] != second.configs[digest]]
    assert 0 < len(moved) <= 16
    assert max(totals(second, loads)) < max(totals(first, loads))


def test_moves_are_bounded() -> None:
    loads = zipf(20, 100)
    first = place(loads, 12, None, Bounds(), term=1)
    others = {unit: load * (5 if unit.model in {"m1", "m2"} else 1) for unit, load in loads.items()}
    second = place(others, 12, first, Bounds(moves_max=3), term=2)
    assert 0 < sum(first.configs[digest] != second.configs[digest] for digest in first.configs) <= 3
    later = second
    for term in range(3, 40):
        later = place(others, 12, later, Bounds(moves_max=3), term=term)
    assert max(totals(later, others)) <= 1.0501 * sum(others.values()) / 12


def test_a_new_configuration_goes_to_its_model_and_a_new_model_where_there_is_least() -> None:
    loads = {Unit("m", "a"): 4.0, Unit("n", "b"): 2.0}
    first = place(loads, 2, None, Bounds(tolerance=0.5), term=1)
    home = {unit: first.configs[unit.config_hash][0].partition for unit in loads}
    more = loads | {Unit("n", "c"): 0.1, Unit("new", "d"): 0.2}
    second = place(more, 2, first, Bounds(tolerance=0.5), term=2)
    assert second.configs["c"][0].partition == home[Unit("n", "b")]
    assert second.configs["d"][0].partition == min(range(2), key=totals(first, loads).__getitem__)


def test_what_is_asked_for_no_more_leaves_the_table() -> None:
    first = place(zipf(5, 10), 4, None, Bounds(), term=1)
    second = place({Unit("m1", "0001"): 1.0, Unit("m2", "0002"): 0.0}, 4, first, Bounds(), term=2)
    assert second.configs.keys() == {"0001"}
    assert place({}, 4, second, Bounds(), term=3).models == {}


def test_another_number_of_partitions_lays_everything_out_anew() -> None:
    loads = zipf(20, 100)
    first = place(loads, 12, None, Bounds(), term=1)
    grown = place(loads, 24, first, Bounds(), term=2)
    assert grown == place(loads, 24, None, Bounds(), term=2)
    of_models: dict[str, set[int]] = defaultdict(set)
    for unit in loads:
        of_models[unit.model] |= {share.partition for share in grown.configs[unit.config_hash]}
    assert all({share.partition for share in grown.models[model]} == at for model, at in of_models.items())


@pytest.mark.parametrize("previous", [None, {"a": (0,), "b": (0,)}])
def test_rates_from_the_ends_of_what_may_be_told_make_a_table(previous: dict[str, tuple[int, ...]] | None) -> None:
    """A table is made in the lease of requests[0], which an error would end."""
    smallest, largest = 5e-324, RATE_MAX
    known = None
    if previous is not None:
        weights = (smallest, WEIGHT_MAX)
        configs = {
            name: tuple(Share(partition=number, weight=weight) for number in numbers for weight in weights)
            for name, numbers in previous.items()
        }
        known = Placement(term=1, partitions=4, models={}, configs=configs)
    for rates in itertools.product((smallest, 1e-6, 1.0, largest), repeat=3):
        loads = {Unit("m", name): rate for name, rate in zip("abc", rates, strict=True)}
        table = place(loads, 4, known, Bounds(), term=2)
        assert table.configs.keys() <= {"a", "b", "c"}
        assert all(share.weight <= 1 for shares in table.configs.values() for share in shares)

"""What a partition tells of its work, and what is made of it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.wait import Wait
from schemas.demand import Demand, decode_demand
from schemas.errors import Undecodable
from streams.demand import RateMeter, Teller, alike, unit_of, waits_of
from tests.unit.admission.scene import HOME, Partition, config_file, request

AT = datetime(2030, 1, 1, tzinfo=UTC)
MEAN = 300.0
UNIT = "sd15.aa.float16/cc"


def rate(meter: RateMeter, now: float) -> float:
    return meter.rates(now, 10).get("a", {}).get(UNIT, 0.0)


@given(per_second=st.floats(0.01, 100), seconds=st.integers(300, 3000))
def test_a_steady_stream_is_told_as_it_is(per_second: float, seconds: int) -> None:
    meter = RateMeter(MEAN, 0.0)
    for now in range(seconds):
        meter.add("a", UNIT, per_second, float(now))
    assert rate(meter, float(seconds)) == pytest.approx(per_second, rel=0.02)


def test_one_request_of_a_new_owner_is_no_rate_yet() -> None:
    meter = RateMeter(MEAN, 0.0)
    meter.add("a", UNIT, 6.0, 0.001)
    assert rate(meter, 0.002) < 6.0 / (0.05 * MEAN)


def test_what_comes_no_more_fades_and_is_forgotten() -> None:
    meter = RateMeter(MEAN, 0.0)
    for now in range(3000):
        meter.add("a", UNIT, 1.0, float(now))
    assert rate(meter, 3000 + MEAN) == pytest.approx(1 / 2.718, rel=0.02)
    assert rate(meter, 3000 + 20 * MEAN) == 0
    assert meter.rates(3000 + 20 * MEAN, 10) == {}


def test_a_new_owner_goes_on_from_what_the_former_told() -> None:
    meter = RateMeter(MEAN, 50.0, {"a": {UNIT: 2.0}}, age_seconds=30)
    assert rate(meter, 50.0) == pytest.approx(2.0 * 0.9048, rel=0.01)
    for now in range(50, 2050):
        meter.add("a", UNIT, 1.0, float(now))
    assert rate(meter, 2050.0) == pytest.approx(1.0, rel=0.02)


def test_beyond_the_most_units_the_others_are_told_by_their_model() -> None:
    meter = RateMeter(MEAN, 0.0)
    for number in range(5):
        meter.add("a", f"m/{number}", 10.0 * (5 - number), 0.0)
    meter.add("b", "n/9", 1.0, 0.0)
    told = meter.rates(MEAN, 2)
    assert set(told["a"]) == {"m/0", "m/1", "m/m"}
    assert set(told["b"]) == {"n/n"}
    every = meter.rates(MEAN, 100)
    assert sum(told["a"].values()) == pytest.approx(sum(every["a"].values()), rel=1e-3)


def teller() -> tuple[Partition, Teller]:
    partition = Partition()
    return partition, Teller(partition.state, RateMeter(MEAN, 0.0), 10)


def test_what_waits_is_told_when_it_changes_and_again_after_a_while() -> None:
    partition, tells = teller()
    first = tells.news(0.0, AT, 15)
    assert first is not None
    assert (first.partition, first.waiting, first.rates) == (HOME, {}, {})
    assert tells.news(0.0, AT, 15) is not None, "nobody has it yet"
    tells.told(first, 0.0)
    assert tells.news(14.9, AT, 15) is None
    assert tells.news(15.0, AT, 15) is not None
    partition.send(request(images=2))
    second = tells.news(1.0, AT, 15)
    assert second is not None
    assert second.waiting == {"default": {"standard": 4.0}}
    tells.told(second, 1.0)
    partition.finish(partition.produced[0].job_id)
    third = tells.news(2.0, AT, 15)
    assert third is not None
    assert third.waiting == {}


def test_what_is_accepted_is_told_as_a_rate_of_its_configuration() -> None:
    _, tells = teller()
    config = config_file("sketch").versions[1]
    tells.accepted(config, 30.0, 0.0)
    news = tells.news(MEAN, AT, 15)
    assert news is not None
    assert news.rates == {"default": {unit_of(config): pytest.approx(30 * 0.3679 / MEAN / 0.6321, rel=1e-3)}}


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        ({}, {}, True),
        ({"a": {"bulk": 100.0}}, {"a": {"bulk": 104.0}}, True),
        ({"a": {"bulk": 100.0}}, {"a": {"bulk": 106.0}}, False),
        ({"a": {"bulk": 100.0}}, {}, False),
        ({}, {"a": {"bulk": 1.0}}, False),
        ({"a": {"bulk": 100.0}}, {"a": {"standard": 100.0}}, False),
    ],
)
def test_a_change_of_a_few_hundredths_is_not_worth_telling(
    was: dict[str, dict[str, float]], now: dict[str, dict[str, float]], same: bool
) -> None:
    assert alike(was, now) is same


@pytest.mark.parametrize("figure", ["1e308", "-1", "NaN", "1e400", "null", '"many"'])
def test_a_figure_that_nobody_could_have_counted_is_not_read(figure: str) -> None:
    """Two of 1e308 are infinite, and an infinite wait is no figure of a result."""
    for told in (
        f'"waiting": {{"a": {{"bulk": {figure}}}}}, "rates": {{}}',
        f'"waiting": {{}}, "rates": {{"a": {{"m/x": {figure}}}}}',
    ):
        with pytest.raises(Undecodable):
            decode_demand(f'{{"partition": 0, {told}, "at": "2030-01-01T00:00:00Z"}}'.encode())


def test_what_all_told_is_added_up_by_pool() -> None:
    def told(partition: int, **pools: dict[str, float]) -> Demand:
        return Demand(partition=partition, waiting=pools, rates={}, at=AT)

    demands = [told(0, a={"bulk": 1.0, "standard": 2.0}), told(1, a={"bulk": 4.0}, gone={"bulk": 9.0}), told(2)]
    waits = waits_of(demands, ["a", "b"], {"b": 3})
    assert waits["a"] == Wait(
        {"bulk": 5.0, "standard": 2.0}, {0: {"bulk": 1.0, "standard": 2.0}, 1: {"bulk": 4.0}}, None
    )
    assert waits["b"] == Wait(gpus=3)
    assert waits["a"].besides(0) == {"bulk": 4.0, "standard": 0.0}
    assert waits["a"].besides(7) == {"bulk": 5.0, "standard": 2.0}

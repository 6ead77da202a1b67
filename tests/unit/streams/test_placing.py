"""When the controller says where work goes."""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from admission.placement import Bounds, Unit, place
from schemas.control import Placement, decode_control
from schemas.demand import Demand
from schemas.topics import RECORD_BYTES_MAX
from streams.kafka.sending import Output
from streams.placing import UNITS_MAX, Placing, loads_of
from tests.kafka import small_catalogue

CATALOGUE = small_catalogue("kiln", requests_partitions=2, work_partitions=4, pools=("a", "b"))


def demand(partition: int, **rates: float) -> Demand:
    """Of pool a: model/hash to GPU-seconds a second."""
    told = {name.replace("_", "/"): rate for name, rate in rates.items()}
    return Demand(partition=partition, waiting={}, rates={"a": told}, at=datetime.now(UTC))


def placing(*demands: Demand) -> Placing:
    return Placing(CATALOGUE, lambda: {each.partition: each for each in demands}, seconds=60.0, bounds=Bounds())


def table_of(output: Output) -> Placement:
    assert (output.topic, output.partition) == (CATALOGUE.control, 0)
    said = decode_control(output.key, output.value or b"")
    assert isinstance(said, Placement)
    return said


def test_all_partitions_work_is_summed_up_by_configuration() -> None:
    told = [demand(0, m_x=1.0, m_y=0.5), demand(1, m_x=2.0, n_=0.25)]
    assert loads_of("a", told) == {Unit("m", "x"): 3.0, Unit("m", "y"): 0.5, Unit("n", ""): 0.25}
    assert loads_of("b", told) == {}


async def test_a_table_stays_below_what_a_record_may_be() -> None:
    """What is too large would end the lease of requests[0], again and again."""
    rates = {f"m{n % 9}/{n:064x}": 1.0 + n for n in range(3 * UNITS_MAX)}
    told = [Demand(partition=at, waiting={}, rates={"a": rates}, at=datetime.now(UTC)) for at in (0, 1)]
    loads = loads_of("a", told)
    assert len(loads) == UNITS_MAX + 9
    assert sum(loads.values()) == pytest.approx(2 * sum(rates.values()))
    assert Unit(*max(rates, key=rates.__getitem__).split("/")) in loads, "the hottest are told apart"
    (said,) = await placing(*told).news(0.0, {})
    assert len(said.value or b"") < RECORD_BYTES_MAX / 2


async def test_a_table_is_said_for_each_pool_that_has_work() -> None:
    (said,) = await placing(demand(0, m_x=1.0), demand(1, m_y=1.0)).news(0.0, {})
    assert said.key == b"placement/a"
    table = table_of(said)
    assert (table.term, table.partitions, set(table.configs)) == (0, 4, {"x", "y"})


async def test_what_did_not_change_is_not_said_again_and_a_change_has_a_higher_term() -> None:
    told = [demand(0, m_x=1.0), demand(1, m_y=1.0)]
    (said,) = await placing(*told).news(0.0, {})
    known = {"a": table_of(said).model_copy(update={"term": 7})}
    assert await placing(*told).news(0.0, known) == []
    (said,) = await placing(told[0], demand(1, m_y=1.0, m_z=4.0)).news(0.0, known)
    assert table_of(said).term == 8


async def test_it_is_thought_over_no_more_often_than_it_should() -> None:
    one = placing(demand(0, m_x=1.0), demand(1, m_y=1.0))
    assert await one.news(100.0, {})
    assert await one.news(159.0, {}) == []
    assert await one.news(160.0, {})


async def test_nothing_moves_while_a_partition_is_silent() -> None:
    assert await placing(demand(0, m_x=1.0)).news(0.0, {}) == []


async def test_configurations_that_are_not_told_apart_have_weight_and_no_place_of_their_own() -> None:
    (said,) = await placing(demand(0, m_=3.0, n_x=1.0), demand(1)).news(0.0, {})
    table = table_of(said)
    assert set(table.configs) == {"x"}
    assert {share.partition for share in table.models["m"]} == {0, 1, 2}


async def test_a_large_table_is_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats are sent from it."""
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(*args: Any, **given: Any) -> Placement:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(60)
        return place(*args, **given)

    monkeypatch.setattr("streams.placing.place", slow)
    making = asyncio.create_task(placing(demand(0, m_x=1.0), demand(1, m_y=1.0)).news(0.0, {}))
    await begun.wait()
    go_on.set()
    assert [table_of(each).term for each in await making] == [0]

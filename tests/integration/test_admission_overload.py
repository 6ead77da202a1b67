"""A pool with more work than it can do in good time, over a real broker."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admission.world import World
from schemas.catalogue import ConfigCatalogue
from schemas.demand import decode_demand
from schemas.pools import Pools
from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from streams.service import AdmissionService
from tests.admission import Seen, committed, eventually, running, send, small_world, tenant_of
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL

SECONDS, GPUS = 0.2, 2  # of a sketch; that the pool may have
DEGRADE, REFUSE = 2.0, 4.0
QUICK: Mapping[str, Any] = {"demand_seconds": 0.05, "refresh_seconds": 0.1}


@pytest.fixture
def world(catalogue: Catalogue) -> World:
    """Sketches have a sibling that costs half; the pool has bounds that a few of them reach."""
    pool = catalogue.pools[POOL].model_copy(
        update={"degrade_wait_seconds": DEGRADE, "refuse_wait_seconds": REFUSE, "replicas_max": GPUS}
    )
    declared = small_world(Catalogue(catalogue.settings, Pools(pools={POOL: pool})))
    sketch, quick = declared.configs.files["sketch"], declared.configs.files["painting"]
    price = quick.versions[1].price.model_copy(update={"gpu_seconds": SECONDS / 2})
    quick = quick.model_copy(update={"versions": {1: quick.versions[1].model_copy(update={"price": price})}})
    sketch = sketch.model_copy(update={"degrades_to": {1: "painting@1"}})
    return replace(declared, configs=ConfigCatalogue([sketch, quick]))


async def decisions(kafka: KafkaSettings, catalogue: Catalogue, number: int) -> list[dict[str, Any]]:
    async def enough() -> list[Seen]:
        seen = await asyncio.to_thread(committed, kafka, catalogue.decisions, catalogue.requests_partitions)
        return seen if len(seen) >= number else []

    return [each.json() for each in await eventually(enough, what=f"{number} decisions")]


def gauge(service: AdmissionService, name: str, **labels: str) -> float | None:
    value: float | None = service.metrics.registry.get_sample_value(f"kiln_admission_{name}", labels)
    return value


async def test_work_piles_up_and_is_degraded_and_then_refused(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, tmp_path: Path
) -> None:
    as_they_are = round(DEGRADE * GPUS / SECONDS) + 1
    degraded = round((REFUSE * GPUS - as_they_are * SECONDS) / (SECONDS / 2)) + 1
    pool = GpuPool(kafka, catalogue, tmp_path / "store")
    async with running(kafka, world, "plain", **QUICK) as service:
        send(kafka, catalogue, "atelier", *(f"r{n}" for n in range(100)), may_degrade=True)
        made = await decisions(kafka, catalogue, 100)
        counts = Counter((each["verdict"], each.get("code"), each["price_gpu_seconds"]) for each in made)
        assert counts == {
            ("accepted", None, SECONDS): as_they_are,
            ("accepted", None, SECONDS / 2): degraded,
            ("rejected", "overloaded", 0.0): 100 - as_they_are - degraded,
        }
        await eventually(
            lambda: gauge(service, "degraded_total", config="sketch@1") == degraded,
            what="the count, which comes after the emission",
        )
        refused = await pool.wait_for_results(100 - as_they_are - degraded)
        assert {each.status for each in refused} == {"rejected"}
        assert all(each.retry_after_seconds >= 1 for each in refused)
        assert len({each.retry_after_seconds for each in refused}) > 1
        async with pool.consumer():
            ended = [each for each in await pool.wait_for_results(100) if each.status == "succeeded"]
            assert Counter((each.config.name, each.degraded_from) for each in ended) == {
                ("sketch", None): as_they_are,
                ("painting", "sketch@1"): degraded,
            }

            async def enters_again() -> bool:
                """Once admission has heard that the work is done."""
                known = {each["request_id"] for each in await decisions(kafka, catalogue, 100)}
                send(kafka, catalogue, "atelier", f"later{len(known)}", may_degrade=True)
                newest = (await decisions(kafka, catalogue, len(known) + 1))[-1]
                return bool(newest["verdict"] == "accepted" and newest["price_gpu_seconds"] == SECONDS)

            await eventually(enters_again, what="a request that enters as it is")


async def test_what_another_partition_told_counts(kafka: KafkaSettings, catalogue: Catalogue, world: World) -> None:
    crowd, guest = tenant_of(catalogue, 0), tenant_of(catalogue, 1)
    async with running(kafka, world, "plain", **QUICK):
        send(kafka, catalogue, crowd, *(f"r{n}" for n in range(60)))
        await decisions(kafka, catalogue, 60)
        told = round(REFUSE * GPUS / SECONDS) + 1

        async def refused() -> bool:
            number = len(await decisions(kafka, catalogue, 60))
            send(kafka, catalogue, guest, f"r{number}")
            newest = next(
                each for each in await decisions(kafka, catalogue, number + 1)
                if (each["tenant"], each["request_id"]) == (guest, f"r{number}")
            )  # fmt: skip
            return bool(newest.get("code") == "overloaded")

        await eventually(refused, what="a refusal for what the other partition has")
    latest = {}
    for each in await asyncio.to_thread(committed, kafka, catalogue.observations, 1):
        latest[each.key] = decode_demand(each.value or b"")
    demand = latest[b"demand/0"]
    # A change of less than a twentieth is told later.
    assert demand.waiting == {POOL: {"standard": pytest.approx(told * SECONDS, rel=0.05)}}
    (unit,) = demand.rates[POOL]
    sketch = world.configs.files["sketch"].versions[1]
    assert unit == f"{sketch.model_key}/{sketch.config_hash}"


async def test_a_new_owner_tells_of_the_work_that_it_found_until_it_is_done(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, tmp_path: Path
) -> None:
    tenant = tenant_of(catalogue, 0)
    async with running(kafka, world, "plain", **QUICK):
        send(kafka, catalogue, tenant, *(f"r{n}" for n in range(10)))
        await decisions(kafka, catalogue, 10)
    async with running(kafka, world, "plain", **QUICK) as service:
        await eventually(
            lambda: gauge(service, "waiting_gpu_seconds", pool=POOL, lane="standard") == pytest.approx(10 * SECONDS),
            what="what waits, in a process that has decided nothing",
        )
        await eventually(lambda: gauge(service, "demands_missing") == 0, what="the word of every partition")
        async with GpuPool(kafka, catalogue, tmp_path / "store").consumer():
            await eventually(
                lambda: gauge(service, "waiting_gpu_seconds", pool=POOL, lane="standard") == 0, what="nothing waits"
            )


async def test_the_consumers_of_a_pool_are_counted(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, tmp_path: Path
) -> None:
    pool = GpuPool(kafka, catalogue, tmp_path / "store")
    async with running(kafka, world, "plain", **QUICK) as service:
        await eventually(lambda: gauge(service, "pool_consumers", pool=POOL) == 0, what="nobody")
        async with pool.consumer(), pool.consumer():
            await eventually(lambda: gauge(service, "pool_consumers", pool=POOL) == 2, what="two consumers")
        await eventually(lambda: gauge(service, "pool_consumers", pool=POOL) == 0, what="nobody again")

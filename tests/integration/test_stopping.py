"""Stopping what was asked for: a tenant's own cancels, and the operators' pauses and drops, through all of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from schemas.control import Drop
from schemas.partition import partition_of
from schemas.request import GenerationRequest
from schemas.topics import Catalogue
from streams.client import PromptClient
from streams.control_log import say
from streams.kafka.settings import KafkaSettings
from streams.service import AdmissionService
from tests.admission import committed, eventually, request, running, small_world
from tests.integration.gpu_pool import GpuPool
from tests.kiln import Kiln
from tests.scripted import ScriptedEngine

TENANT = "atelier"


def send(kafka: KafkaSettings, catalogue: Catalogue, *values: bytes, at_home: bool = True) -> None:
    """One after the other, to the tenant's partition or to the other one, as a producer with another hash does."""
    home = partition_of(TENANT.encode(), catalogue.requests_partitions)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in values:
        producer.produce(catalogue.requests, value, TENANT.encode(), partition=home if at_home else 1 - home)
        assert producer.flush(30) == 0


def taken_back(request_id: str) -> bytes:
    return json.dumps({"tenant": TENANT, "request_id": request_id, "cancel": True}).encode()


def counted(service: AdmissionService, name: str, **labels: str) -> float:
    return service.metrics.registry.get_sample_value(f"kiln_admission_{name}_total", labels) or 0.0


def heard(service: AdmissionService) -> float:
    return sum(counted(service, "cancels", outcome=outcome) for outcome in ("written", "nothing"))


async def ended(pool: GpuPool, number: int) -> dict[str, Any]:
    return {result.request_id: result for result in await pool.wait_for_results(number)}


@pytest.mark.parametrize("at_home", [True, False], ids=["at home", "sent home"])
async def test_a_tenant_takes_back_what_it_sent(pool: GpuPool, at_home: bool) -> None:
    kafka, catalogue = pool.kafka, pool.catalogue
    engine = ScriptedEngine()
    engine.gate.clear()
    async with running(kafka, small_world(catalogue), "plain") as service, pool.consumer(engine):
        send(kafka, catalogue, request(TENANT, "runs", images=4), request(TENANT, "stays"), at_home=at_home)
        await eventually(lambda: sum(map(len, engine.runs)) == 4, what="it runs")
        for _ in range(2):
            send(kafka, catalogue, taken_back("runs"), taken_back("never sent"), at_home=at_home)
        (result,) = await pool.wait_for_results(1)
        assert (result.request_id, result.status) == ("runs", "cancelled")
        assert result.message == "cancelled while it ran"
        engine.gate.set()
        assert (await ended(pool, 2))["stays"].status == "succeeded"
        await eventually(lambda: counted(service, "results_folded") >= 2, what="admission knows that both have ended")
        send(kafka, catalogue, taken_back("stays"), at_home=at_home)
        await eventually(lambda: heard(service) == 5, what="all heard")
    written = [record.key for record in await asyncio.to_thread(committed, kafka, catalogue.cancels, 1)]
    assert set(written) == {f"{TENANT}/runs".encode()}, "only what could end"
    assert len(await pool.results()) == 2
    assert not await asyncio.to_thread(committed, kafka, catalogue.dead_letters, 1)


async def test_a_client_cancels_by_the_road_it_sent(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    wish = GenerationRequest.model_validate(json.loads(request(TENANT, "r1")))
    async with (
        running(pool.kafka, small_world(pool.catalogue), "plain"),
        pool.consumer(engine),
        PromptClient(pool.kafka, pool.catalogue) as client,
    ):
        await client.submit([wish])
        await eventually(lambda: engine.runs, what="it runs")
        await client.cancel([(TENANT, "r1")])
        results = [result async for result in client.follow([(TENANT, "r1")], 60)]
    assert [result.status for result in results] == ["cancelled"]


@pytest.mark.parametrize("subject", ["tenant/atelier", "config/sketch@1", "pool/a"])
async def test_what_was_sent_before_a_drop_is_cancelled_at_the_door(pool: GpuPool, kiln: Kiln, subject: str) -> None:
    kafka, catalogue = pool.kafka, pool.catalogue
    send(kafka, catalogue, request(TENANT, "before"), request(TENANT, "other", config={"name": "painting"}))
    kind, name = subject.split("/")
    if kind == "tenant":
        done = await kiln("drop", kind, name, "--reason", "it draws badly", "--yes")
        assert done.code == 0, done
    else:  # as the command does
        await say(kafka, catalogue, [(f"drop/{subject}".encode(), Drop(reason="it draws badly"))])
    async with running(kafka, small_world(catalogue), "plain"), pool.consumer():
        send(kafka, catalogue, request(TENANT, "later"))
        found = await ended(pool, 3)
    assert found["before"].status == "cancelled"
    assert found["before"].message == (
        f"cancelled before it was admitted: {kind} {name!r} was dropped (it draws badly)"
    )
    assert found["later"].status == "succeeded"
    assert found["other"].status == ("succeeded" if kind == "config" else "cancelled")


async def test_a_pause_and_its_end_are_heard_without_a_restart(pool: GpuPool, kiln: Kiln) -> None:
    kafka, catalogue = pool.kafka, pool.catalogue
    kiln.environment["KILN_CONFIGS"] = str(configs(catalogue, Path(kiln.environment["KILN_POOLS"]).parent))
    world = small_world(catalogue)
    async with running(kafka, world, "plain") as service, pool.consumer() as consumer:

        def paused() -> int:
            now = service._world.current if service._world is not None else None
            return -1 if now is None else len(now.paused)

        await eventually(lambda: paused() == 0, what="admission is there")
        done = await kiln.here("pause", "pool", "a", "--for", "1h", "--reason", "a new driver")
        assert done.code == 0, done
        assert "pool 'a' is paused until 2" in done.out
        await eventually(lambda: paused() == 1 and consumer.consumer._stops.paused, what="both have heard it")
        send(kafka, catalogue, request(TENANT, "refused"))
        (result,) = await pool.wait_for_results(1)
        assert (result.status, result.code) == ("rejected", "paused")
        assert 3000 < result.retry_after_seconds <= 3600
        assert result.message.endswith("Reason: a new driver")

        shown = await kiln.here("controls", "--json")
        assert shown.code == 0, shown
        said = [(row["subject"], row["reason"]) for row in json.loads(shown.out) if row["what"] == "pause"]
        assert said == [("pool/a", "a new driver")]

        assert (await kiln.here("resume", "pool", "a")).code == 0
        for taken_back_twice in (("resume", "pool", "a"), ("drop", "pool", "a", "--undo")):
            nothing = await kiln.here(*taken_back_twice)
            assert (nothing.code, nothing.out) == (1, ""), nothing
        await eventually(lambda: paused() == 0 and not consumer.consumer._stops.paused, what="both have heard it")
        send(kafka, catalogue, request(TENANT, "again", retry_of="refused"))
        assert (await ended(pool, 2))["again"].status == "succeeded"


async def test_cancel_by_the_command_line_and_what_it_says(pool: GpuPool, kiln: Kiln) -> None:
    kafka, catalogue = pool.kafka, pool.catalogue
    engine = ScriptedEngine()
    engine.gate.clear()
    async with running(kafka, small_world(catalogue), "plain"), pool.consumer(engine):
        send(kafka, catalogue, request(TENANT, "a/b"), request(TENANT, "other"))
        await eventually(lambda: sum(map(len, engine.runs)) == 2, what="both run")
        done = await kiln.here("cancel", f"{TENANT}/a/b", "--wait")
        assert (done.code, done.out) == (0, f"{TENANT}/a/b cancelled: cancelled while it ran\n"), done
        done = await kiln.here("cancel", f"{TENANT}/other", "--operator", "--wait")
        assert done.code == 0, done
    written = await asyncio.to_thread(committed, kafka, catalogue.cancels, 1)
    assert [record.json()["by"] for record in written] == ["tenant", "operator"]


def configs(catalogue: Catalogue, folder: Path) -> Path:
    """The files of a small world, for commands."""
    folder = folder / "configs"
    folder.mkdir()
    for name, file in small_world(catalogue).configs.files.items():
        body = file.model_dump(mode="json", exclude_none=True)
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(body))
    return folder

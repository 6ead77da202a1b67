"""`kiln quote` over a real broker: the answer is what admission would say, and nothing is sent."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.question import ask
from admission.settings import AdmissionLimits
from admission.world import World
from schemas.deployment import DeploymentSettings
from schemas.errors import CommandError
from schemas.lock import write_lock
from schemas.partition import partition_of
from schemas.request import GenerationRequest
from schemas.topics import Catalogue
from streams.asking import present
from streams.kafka.settings import KafkaSettings
from streams.quote import Quote, quote_of
from streams.settings import AdmissionServiceSettings
from streams.world import load_world
from tests.admission import committed, eventually, running, send
from tests.kafka import POOL
from tests.kiln import Kiln

SECONDS, GPUS, BURST = 0.2, 2, 50
QUICK: Mapping[str, Any] = {"demand_seconds": 0.05, "refresh_seconds": 0.1}
CROWD, GUEST = "tenant0", "tenant3"
PATIENT = ("--timeout", "120")


@pytest.fixture
def environment(prefix: str, tmp_path: Path) -> dict[str, str]:
    """A deployment in files: sketches degrade to quick ones where they wait for more than a second."""
    pool = {
        "gpu_product": "CPU", "vram_bytes": 8 << 30, "price_usd_per_hour": 36, "replicas_max": GPUS, "partitions": 4,
        "degrade_wait_seconds": 1,
    }  # fmt: skip
    (tmp_path / "pools.yaml").write_text(yaml.safe_dump({"pools": {POOL: pool}}))
    (tmp_path / "tenants.yaml").write_text(yaml.safe_dump({"default": {"per_second": 0.001, "burst": BURST}}))
    configs = tmp_path / "configs"
    configs.mkdir()
    for name, seconds, more in (("sketch", SECONDS, {"degrades_to": {1: "quick@1"}}), ("quick", 0.05, {})):
        version = {
            "family": "sd15", "model": {"name": "tiny", "digest": "sha256:" + "0" * 64}, "steps": 4, "pool": POOL,
            "guidance_scale": 5.0, "width": 64, "height": 64, "price": {"gpu_seconds": seconds, "vram_bytes": 1 << 20},
        }  # fmt: skip
        file = {"name": name, "channels": {"stable": 1}, "versions": {1: version}, **more}
        (configs / f"{name}.yaml").write_text(yaml.safe_dump(file))
    found = {"KILN_POOLS": tmp_path / "pools.yaml", "KILN_TENANTS": tmp_path / "tenants.yaml", "KILN_CONFIGS": configs}
    return {key: str(path) for key, path in found.items()} | {
        "KILN_TOPICS_PREFIX": prefix, "KILN_TOPICS_REQUESTS_PARTITIONS": "2",
    }  # fmt: skip


@pytest.fixture
def world(catalogue: Catalogue, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> World:
    del catalogue  # its topics are there
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    deployment = DeploymentSettings()
    write_lock(deployment.load_configs(), deployment.configs)
    return load_world(deployment, AdmissionLimits())


async def quoted(kafka: KafkaSettings, world: World, tenant: str, **wish: Any) -> Quote:
    body = {"request_id": "q", "tenant": tenant, "prompt": "a kiln", "config": {"name": "sketch"}, **wish}
    around = await present(kafka, world, AdmissionServiceSettings(**QUICK), tenant, 180)
    answer = ask(GenerationRequest.model_validate(body), around.state, around.world, time.time_ns() // 1_000_000)
    return quote_of(answer, around.world, around.silent)


async def test_a_quote_counts_what_waits_and_the_tenants_own_work_once(
    kafka: KafkaSettings, catalogue: Catalogue, world: World
) -> None:
    assert [partition_of(each.encode(), 2) for each in (CROWD, GUEST)] == [0, 1], "homes of their own"
    async with running(kafka, world, "plain", **QUICK):
        idle = await quoted(kafka, world, CROWD)
        assert (idle.enters, idle.wait_seconds_soonest, idle.gpu_seconds, idle.usd) == (True, 0, SECONDS, 0.002)
        assert (idle.left[0].requests, idle.gpus_now, idle.gpus_max) == (BURST - 1, 0, GPUS)
        send(kafka, catalogue, CROWD, *(f"r{n}" for n in range(30)))

        async def both_are_told_what_waits() -> bool:
            mine, theirs = await quoted(kafka, world, CROWD), await quoted(kafka, world, GUEST)
            assert theirs.left[0].requests == BURST - 1
            wait, left = pytest.approx(30 * SECONDS / GPUS), pytest.approx(BURST - 31, abs=0.5)
            waits = [each.wait_seconds_soonest == wait for each in (mine, theirs)]
            return all(waits) and bool(mine.left[0].requests == left)

        await eventually(both_are_told_what_waits, what="the wait of thirty sketches")
        instead = await quoted(kafka, world, GUEST, may_degrade=True)
        assert (instead.config, instead.degraded_from, instead.gpu_seconds) == ("quick@1", "sketch@1", 0.05)
    assert len(await asyncio.to_thread(committed, kafka, catalogue.decisions, 2)) == 30, "nothing was sent"


async def test_the_command_says_whether_it_would_enter(
    kafka: KafkaSettings, world: World, environment: dict[str, str], kafka_env: dict[str, str]
) -> None:
    kiln = Kiln(kafka_env | environment)
    async with running(kafka, world, "plain", **QUICK):

        async def every_partition_has_told() -> bool:
            return not (await quoted(kafka, world, GUEST)).silent_partitions

        await eventually(every_partition_has_told, what="the word of every partition")
        good = await kiln("quote", "a kiln", "--config", "sketch", "--images", "2", *PATIENT)
        refused = await kiln.here("quote", "a kiln", "--config", "sketch", "--deadline", "0.1", "--json", *PATIENT)
        wrong = await kiln.here("quote", "a kiln", "--config", "none", *PATIENT)
    assert good.code == 0, good
    assert "price     0.4 GPU-seconds, 0.0040 USD" in good.out
    assert "verdict   it would enter" in good.out
    assert refused.code == 3, refused
    assert json.loads(refused.out)["code"] == "deadline_infeasible"
    assert wrong.code == 3, wrong
    assert "it would be refused, unknown_config: there is no config 'none'" in wrong.out


async def test_where_nobody_tells_the_quote_says_so_and_without_topics_what_to_do(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await quoted(kafka, world, CROWD)
    assert (found.enters, found.silent_partitions) == (True, (0, 1))
    monkeypatch.setenv("KILN_TOPICS_PREFIX", f"{prefix}.nowhere")
    elsewhere = load_world(DeploymentSettings(), AdmissionLimits())
    with pytest.raises(Exception, match=r"the topic .*nowhere.* is missing; run `kiln topics create`"):
        await quoted(kafka, elsewhere, CROWD)
    with pytest.raises(CommandError, match=r"no answer within 0\.001 s"):
        await present(kafka, world, AdmissionServiceSettings(), CROWD, 0.001)

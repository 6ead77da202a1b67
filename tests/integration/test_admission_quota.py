"""Quotas in GPU-seconds, refunds and usage over a real broker."""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from confluent_kafka import Producer

from admission.settings import AdmissionLimits
from admission.world import World
from schemas.codec import encode
from schemas.config import GenerationConfig
from schemas.observation import Observation
from schemas.partition import partition_of
from schemas.result import parse_result
from schemas.tenancy import TenantRecord
from schemas.tenants import KeyQuota, Quota, Rate
from schemas.topics import Catalogue
from streams.commands.usage import usage
from streams.kafka.settings import KafkaSettings
from streams.service import AdmissionService
from streams.usage import read_usage
from tests.admission import committed, eventually, produce, running, send, small_world, start
from tests.kafka import POOL
from tests.kiln import Kiln

TENANT = "atelier"
PRICE = 0.2  # of a picture of the configs of the small world
GPU = Rate(per_second=1e-6, burst=2.0)
FREE: dict[str, Any] = {"per_second": 1000, "burst": 1000}
QUOTA = Quota(**FREE, gpu_seconds=GPU, keys={"web": KeyQuota(**FREE, gpu_seconds=Rate(per_second=1e-6, burst=1.0))})


async def decided(kafka: KafkaSettings, catalogue: Catalogue, *ids: str) -> dict[str, dict[str, Any]]:
    """Wait for these."""

    async def all_of_them() -> dict[str, dict[str, Any]] | None:
        seen = await asyncio.to_thread(committed, kafka, catalogue.decisions, catalogue.requests_partitions)
        known = {body["request_id"]: body for body in (each.json() for each in seen)}
        return known if known.keys() >= set(ids) else None

    found: dict[str, dict[str, Any]] = await eventually(all_of_them, what=f"decisions of {ids}")
    return found


def finish(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, decision: dict[str, Any], status: str, gpu_seconds: float
) -> None:
    """What a GPU consumer says of a job; twice, as if it had been killed in between."""
    config = world.configs.files["sketch"].versions[1]
    assert isinstance(config, GenerationConfig)
    used = {"name": "sketch", "version": 1, "hash": config.config_hash, "model_digest": config.model.digest}
    body = {
        "status": status, "tenant": decision["tenant"], "request_id": decision["request_id"],
        "job_id": decision["job_id"], "finished_at": "2030-01-01T00:00:00Z", "gpu_seconds": gpu_seconds,
        "message": "for the test", "code": "generation_error", "config": used, "deadline": "2030-01-01T00:00:00Z",
        "artifacts": [], "seed": 1, "batch_size": 1, "bucket": 1, "environment": {"device": "cpu"},
        "peak_vram_bytes": 0,
    }  # fmt: skip
    value = encode(parse_result(json.dumps(body).encode()))
    home = partition_of(decision["tenant"].encode(), catalogue.requests_partitions)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for _ in range(2):
        producer.produce(catalogue.results, value, decision["tenant"].encode(), partition=home)
    assert producer.flush(30) == 0


async def record(kafka: KafkaSettings, catalogue: Catalogue, name: str, finished: int) -> TenantRecord:
    """Of an account once so many of its jobs have ended."""

    async def newest() -> TenantRecord | None:
        seen = await asyncio.to_thread(committed, kafka, catalogue.tenants, catalogue.requests_partitions)
        values = [each.value for each in seen if each.key == name.encode()]
        found = TenantRecord.model_validate_json(values[-1] or b"{}") if values and values[-1] else None
        return found if found is not None and found.finished == finished else None

    found: TenantRecord = await eventually(newest, what=f"{finished} ended jobs of {name}")
    return found


async def metrics(service: AdmissionService) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{service.health.port}/metrics") as response,
    ):
        return await response.text()


async def test_what_a_job_did_not_use_comes_back_once_whoever_is_killed(
    kafka: KafkaSettings, catalogue: Catalogue
) -> None:
    world = small_world(catalogue, tenants={TENANT: QUOTA})
    first = start(kafka, world, "plain")
    send(kafka, catalogue, TENANT, "w1", "w2", key="web", images=2)
    send(kafka, catalogue, TENANT, "w3", key="web", images=2)
    send(kafka, catalogue, TENANT, "t1", images=4)
    send(kafka, catalogue, TENANT, "t2", "t3", images=4)
    found = await decided(kafka, catalogue, "w1", "w2", "w3", "t1", "t2", "t3")
    refused = {name: body["message"] for name, body in found.items() if body["verdict"] == "rejected"}
    assert refused.keys() == {"w3", "t2", "t3"}
    assert refused["w3"].startswith("key 'web' of tenant 'atelier' has 1 GPU-seconds at once")
    assert refused["t2"].startswith("tenant 'atelier' has 2 GPU-seconds at once")
    rejections = [each.json() for each in await asyncio.to_thread(committed, kafka, catalogue.results, 2)]
    assert all(each["retry_after_seconds"] > 1000 for each in rejections)

    await first.kill()
    finish(kafka, catalogue, world, found["w1"], "expired", 0.1)
    finish(kafka, catalogue, world, found["w2"], "succeeded", 5.0)
    second = start(kafka, world, "plain")
    both = await record(kafka, catalogue, f"{TENANT}/web", 2)
    await second.kill()  # its successor finds the results behind it
    async with running(kafka, world, "plain") as third:
        finish(kafka, catalogue, world, found["t1"], "cancelled", 0.0)
        tenant = await record(kafka, catalogue, TENANT, 3)
        send(kafka, catalogue, TENANT, "w4", key="web", images=2)
        send(kafka, catalogue, TENANT, "w5", key="web", images=1)
        found = await decided(kafka, catalogue, "w4", "w5")
        page = await metrics(third)
    assert both.gpu is not None
    assert round(both.gpu.tokens, 3) == 1.0 - 4 * PRICE + 2 * PRICE - 0.1
    assert both.ended == {"expired": 1, "succeeded": 1}
    assert tenant.gpu is not None
    assert round(tenant.gpu.tokens, 3) == 2.0 - 8 * PRICE + (2 * PRICE - 0.1) + 4 * PRICE
    assert (found["w4"]["verdict"], found["w5"]["verdict"]) == ("accepted", "rejected")
    assert 'kiln_admission_tenant_jobs_total{status="cancelled",tenant="atelier"} 1.0' in page


async def test_usage_is_the_sum_of_the_events_whoever_left(
    kafka: KafkaSettings,
    catalogue: Catalogue,
    kafka_env: dict[str, str],
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = replace(small_world(catalogue, tenants={TENANT: QUOTA}), limits=AdmissionLimits(account_idle_seconds=0))
    homes = {f"stranger{n}": partition_of(f"stranger{n}".encode(), catalogue.requests_partitions) for n in range(8)}
    home = partition_of(TENANT.encode(), catalogue.requests_partitions)
    strangers = sorted(homes, key=lambda each: homes[each] != home)[:3]
    assert homes[strangers[0]] == home
    async with running(kafka, world, "plain") as service:
        send(kafka, catalogue, TENANT, "a1", "a2", key="web")
        send(kafka, catalogue, TENANT, "a3", config={"name": "none"})
        for tenant in strangers:
            send(kafka, catalogue, tenant, f"{tenant}-1", f"{tenant}-2", key="k")
        names = ["a1", "a2", *(f"{tenant}-{n}" for tenant in strangers for n in (1, 2))]
        found = await decided(kafka, catalogue, *names, "a3")
        for n, name in enumerate(names):
            finish(kafka, catalogue, world, found[name], ("succeeded", "failed", "expired")[n % 3], 0.25 * (n + 1))

        def folded() -> bool:
            seen = service.metrics.registry.get_sample_value("kiln_admission_results_folded_total")
            return bool(seen == 2 * len(names) + 1)

        await eventually(folded, what="all results")
        await left(kafka, catalogue, strangers[0])
    told = {(each.tenant, each.key): each for each in await read_usage(kafka, catalogue)}

    events: dict[str, dict[str, Any]] = {}
    for each in await asyncio.to_thread(committed, kafka, catalogue.results, catalogue.requests_partitions):
        events[each.json()["job_id"]] = each.json()
    billed, ended = Counter[str](), Counter[tuple[str, str]]()
    for event in events.values():
        billed[event["tenant"]] += event.get("gpu_seconds", 0)
        ended[event["tenant"], event["status"]] += 1
    for tenant in (TENANT, *strangers):
        assert told[tenant, None].gpu_seconds == billed[tenant]
        for status in ("succeeded", "failed", "expired"):
            assert told[tenant, None].ended[status] == ended[tenant, status]
        assert told[tenant, None].rejected == ended[tenant, "rejected"]
        assert told[tenant, None].outstanding == 0
        key = "web" if tenant == TENANT else "k"
        assert told[tenant, key].gpu_seconds == billed[tenant]

    for name, value in (kafka_env | {"KILN_TOPICS_PREFIX": prefix, "KILN_TOPICS_REQUESTS_PARTITIONS": "2"}).items():
        monkeypatch.setenv(name, value)
    await asyncio.to_thread(usage, TENANT, as_json=True)
    out = capsys.readouterr().out
    assert [(each["key"], each["accepted"], each["rejected"], each["gpu_seconds"]) for each in json.loads(out)] == [
        (None, 2, 1, 0.75),
        ("web", 2, 0, 0.75),
    ]


async def test_a_price_is_what_consumers_of_the_pool_measured(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    world = small_world(catalogue)
    config = world.configs.files["sketch"].versions[1]
    assert isinstance(config, GenerationConfig)
    told = Observation(
        device="some card", pool=POOL, kind=config.kind, bucket=1, config_hash=config.config_hash, peak_bytes=0,
        gpu_seconds=0.5, count=3, at=datetime.now(UTC),
    )  # fmt: skip
    async with running(kafka, world, "plain") as service:
        produce(kafka, catalogue.observations, [(told.key, encode(told))])

        def priced() -> bool:
            known = service._world.current if service._world else None
            return known is not None and bool(known.prices)

        await eventually(priced, what="the observation")
        send(kafka, catalogue, TENANT, "r1", images=2)
        send(kafka, catalogue, TENANT, "r2", images=2, config={"name": "painting"})
        found = await decided(kafka, catalogue, "r1", "r2")
    assert found["r1"]["price_gpu_seconds"] == found["r1"]["work"]["price_gpu_seconds"] == 1.0
    assert found["r2"]["price_gpu_seconds"] == 2 * PRICE


async def left(kafka: KafkaSettings, catalogue: Catalogue, tenant: str) -> None:
    """Wait until its account is gone. Quota time moves with requests alone."""

    async def gone() -> bool:
        send(kafka, catalogue, TENANT, "a3", config={"name": "none"})  # a repeat
        seen = await asyncio.to_thread(committed, kafka, catalogue.tenants, catalogue.requests_partitions)
        return {each.key: each.value for each in seen}.get(tenant.encode(), b"") is None

    await eventually(gone, what=f"{tenant} to leave")


async def test_an_operator_changes_a_quota_while_admission_runs(
    kiln: Kiln, kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path
) -> None:
    few = {"per_second": 1e-6, "burst": 2}
    (tmp_path / "tenants.yaml").write_text(yaml.safe_dump({"tenants": {TENANT: few}}))
    kiln.environment["KILN_TENANTS"] = str(tmp_path / "tenants.yaml")
    world = small_world(catalogue, tenants={TENANT: Quota.model_validate(few)})

    def allowed(service: AdmissionService) -> float:
        known = service._world.current if service._world else None
        quota = known.tenants.quota_of(TENANT) if known is not None else None
        return quota.burst if quota is not None else 0

    async with running(kafka, world, "plain") as service:
        send(kafka, catalogue, TENANT, "r1", "r2", "r3")
        found = await decided(kafka, catalogue, "r1", "r2", "r3")
        assert [found[each].get("code") for each in ("r1", "r2", "r3")] == [None, None, "rate_limited"]

        more = tmp_path / "more.yaml"
        more.write_text(yaml.safe_dump(FREE | {"keys": {"web": {"per_second": 5, "burst": 9}}}))
        done = await kiln.here("tenants", "set", TENANT, "--file", str(more), "--reason", "a launch")
        assert done.code == 0, done
        await eventually(lambda: allowed(service) == 1000, what="the quota of control")
        shown = await kiln.here("tenants", "show", "--json")
        (row,) = json.loads(shown.out)
        assert (row["tenant"], row["said_by"], row["reason"]) == (TENANT, "control", "a launch")
        assert row["quota"] == FREE | {"keys": {"web": {"per_second": 5, "burst": 9}}}

        assert (await kiln.here("tenants", "set", TENANT, "--per-second", "2000", "--burst", "1500")).code == 0
        await eventually(lambda: allowed(service) == 1500, what="the quota of the options")
        await eventually(lambda: _let_in(kafka, catalogue), what="a request within the new quota")

        assert (await kiln.here("tenants", "unset", TENANT)).code == 0
        await eventually(lambda: allowed(service) == 2, what="the quota of the file")
        again = await kiln.here("tenants", "unset", TENANT)
        assert again.code == 1
        assert "says nothing" in again.err
        (row,) = json.loads((await kiln.here("tenants", "show", TENANT, "--json")).out)
        assert (row["said_by"], row["quota"]) == ("tenants.yaml", few)


_tries = count(10)


async def _let_in(kafka: KafkaSettings, catalogue: Catalogue) -> bool:
    """A bucket keeps what was left in it, and fills at the new rate: a moment later there is enough."""
    name = f"r{next(_tries)}"
    send(kafka, catalogue, TENANT, name)
    found = await decided(kafka, catalogue, name)
    return bool(found[name]["verdict"] == "accepted")

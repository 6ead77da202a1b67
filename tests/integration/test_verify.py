"""`kiln verify` over results that were really made, and over what was changed since."""

import asyncio
import hashlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Ready
from schemas.codec import encode
from schemas.composed import decision_record
from schemas.config import GenerationConfig
from schemas.decision import Decision
from schemas.result import Succeeded
from schemas.work import WorkItem
from tests.integration.gpu_pool import GpuPool, work_item
from tests.kafka import POOL

Verify = Callable[..., Any]


@pytest.fixture
def verify(kafka_env: dict[str, str], prefix: str, tmp_path: Path, models: Path, config: GenerationConfig) -> Verify:
    """Runs `kiln verify`; returns its exit status, and what it printed."""
    pools, configs = tmp_path / "pools.yaml", tmp_path / "configs"
    pool = {"gpu_product": "CPU", "vram_bytes": 8 << 30, "price_usd_per_hour": 1, "replicas_max": 2, "partitions": 4}
    pools.write_text(yaml.safe_dump({"pools": {POOL: pool}}))
    configs.mkdir()
    body = config.model_dump(mode="json", exclude={"name", "version"})
    file = {"name": config.name, "channels": {"stable": 1}, "versions": {1: body}}
    (configs / f"{config.name}.yaml").write_text(yaml.safe_dump(file))
    environment = kafka_env | {
        "KILN_TOPICS_PREFIX": prefix,
        "KILN_TOPICS_REQUESTS_PARTITIONS": "2",
        "KILN_POOLS": str(pools),
        "KILN_CONFIGS": str(configs),
        "KILN_GPU_MODELS_DIR": str(models),
        "KILN_GPU_DEVICE": "cpu",
    }

    async def run(*arguments: str, stdin: bytes = b"", **more: str) -> tuple[int | None, str]:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from streams.cli import main; main()", "verify", *arguments, env=environment | more,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(child.communicate(stdin), 150)
        return child.returncode, (out + err).decode()

    return run


async def decide(pool: GpuPool, *items: WorkItem) -> None:
    """As admission logs it, beside a decision that nobody reads and a record that is none."""
    records = []
    for number, item in enumerate((*items, work_item("another")), 1):
        decision = Decision(
            number=number, tenant=item.tenant, request_id=item.request_id, job_id=item.job_id, verdict="accepted",
            payload_digest="", offset=number, appended_ms=0, work=encode(item).decode(),
        )  # fmt: skip
        records.append((number % 2, item.request_id.encode(), decision_record(decision), decision.headers()))
    topic = pool.catalogue.decisions
    await pool.produce_raw([(topic, *record) for record in [*records, (0, b"", b"no decision", ())]])


async def make(pool: GpuPool, engine: tuple[EngineProcess, Ready], *items: WorkItem) -> dict[str, Succeeded]:
    async with pool.consumer_over(*engine):
        await pool.produce(items, partition=0)
        return {result.request_id: result for result in await pool.wait_for_results(len(items))}


def path_of(result: Succeeded, n: int) -> Path:
    return Path(result.artifacts[n].uri.removeprefix("file://"))


def nudge(result: Succeeded, levels: int, path: Path) -> Succeeded:
    """As if it had been drawn where one channel of one pixel came out otherwise."""
    artifact = result.artifacts[0]
    pixels = np.asarray(Image.open(path_of(result, 0))).copy()
    pixels[0, 0, 0] += levels if pixels[0, 0, 0] < 128 else -levels
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    path.write_bytes(file.getvalue())
    changed = {"uri": path.as_uri(), "sha256": hashlib.sha256(file.getvalue()).hexdigest()}
    return result.model_copy(update={"artifacts": (artifact.model_copy(update=changed),)})


async def test_a_result_is_drawn_again_and_compared(
    pool: GpuPool,
    engine: tuple[EngineProcess, Ready],
    config: GenerationConfig,
    verify: Verify,
    tmp_path: Path,
) -> None:
    """Case GPU-14."""
    pair = work_item("pair", config=config, prompt="a red fox", negative_prompt="snow", seed=11, images=2)
    near, far, moved, gone = (work_item(name, config=config, seed=3) for name in ("near", "far", "moved", "gone"))
    made = await make(pool, engine, pair, near, far, moved, gone)
    await decide(pool, pair, near, far, moved, gone)

    code, out = await verify("blue/pair")
    assert code == 0, out
    assert out.count("identical: SHA-256") == 2
    assert "note:" not in out

    libraries = {**made["moved"].environment.libraries, "torch": "2.0.0"}
    ran_on = made["moved"].environment.model_copy(update={"libraries": libraries, "device": "NVIDIA A100"})
    results = [
        nudge(made["near"], 2, tmp_path / "near.png"),
        nudge(made["far"], 5, tmp_path / "far.png"),
        made["moved"].model_copy(update={"environment": ran_on}),
        made["gone"],
    ]
    path_of(made["gone"], 0).unlink()
    path_of(made["pair"], 1).write_bytes(b"tampered")
    lines = b"\n".join(encode(result) for result in [*results, made["pair"]])
    code, out = await verify("-", stdin=lines)
    assert code == 1, out
    told = out.split("blue/")
    assert "within tolerance: 2 of 255 levels apart" in told[1]
    assert "different: 5 of 255 levels apart" in told[2]
    assert "identical" in told[3]
    assert "note: it was drawn on NVIDIA A100, and here is CPU" in told[3]
    assert "note: torch was 2.0.0, and is" in told[3]
    assert "identical" in told[4]
    assert "only the result was compared" in told[4]
    assert "picture 0, seed 11: identical" in told[5]
    assert "picture 1, seed 12: different: what lies at" in told[5]
    assert "what was drawn again is" in told[5]


async def test_without_topics_the_request_is_enough_and_another_prompt_is_another_picture(
    pool: GpuPool,
    engine: tuple[EngineProcess, Ready],
    config: GenerationConfig,
    verify: Verify,
    tmp_path: Path,
) -> None:
    item = work_item("alone", config=config, prompt="a red fox", seed=11)
    result = (await make(pool, engine, item))["alone"]
    file, request = tmp_path / "result.json", tmp_path / "request.json"
    file.write_bytes(encode(result))
    request.write_text(json.dumps({"request_id": "alone", "tenant": "blue", "prompt": "a red fox"}))
    code, out = await verify(str(file))
    assert code == 2, out
    assert "the decision of blue/alone is no longer retained; give the request by --request FILE" in out

    offline = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    code, out = await verify(str(file), "--request", str(request), **offline)
    assert code == 0, out
    code, out = await verify(str(file), "--prompt", "a blue fox", **offline)
    assert code == 1, out
    assert "levels apart at most" in out

    newer = result.model_copy(update={"config": result.config.model_copy(update={"hash": "0" * 64})})
    file.write_bytes(encode(newer))
    code, out = await verify(str(file), "--prompt", "a red fox", **offline)
    assert code == 2, out
    assert "set KILN_CONFIGS to its folder" in out
    assert config.config_hash in out

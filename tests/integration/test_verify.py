"""`kiln verify` over results that were really made, and over what was changed since."""

import hashlib
import io
import json
from pathlib import Path

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
from tests.kiln import Kiln, small_deployment


@pytest.fixture
def kiln(kafka_env: dict[str, str], prefix: str, tmp_path: Path, models: Path, config: GenerationConfig) -> Kiln:
    configs = tmp_path / "configs"
    configs.mkdir()
    body = config.model_dump(mode="json", exclude={"name", "version"})
    file = {"name": config.name, "channels": {"stable": 1}, "versions": {1: body}}
    (configs / f"{config.name}.yaml").write_text(yaml.safe_dump(file))
    places = {"KILN_CONFIGS": str(configs), "KILN_GPU_MODELS_DIR": str(models), "KILN_GPU_DEVICE": "cpu"}
    return Kiln(kafka_env | small_deployment(prefix, tmp_path) | places)


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


@pytest.mark.usefixtures("lent")
async def test_a_result_is_drawn_again_and_compared(
    pool: GpuPool,
    engine: tuple[EngineProcess, Ready],
    config: GenerationConfig,
    kiln: Kiln,
    tmp_path: Path,
) -> None:
    """Case GPU-14."""
    pair = work_item("pair", config=config, prompt="a red fox", negative_prompt="snow", seed=11, images=2)
    near, far, moved, gone = (work_item(name, config=config, seed=3) for name in ("near", "far", "moved", "gone"))
    made = await make(pool, engine, pair, near, far, moved, gone)
    await decide(pool, pair, near, far, moved, gone)

    done = await kiln("verify", "blue/pair")  # in a process and with an engine of its own
    assert done.code == 0, done
    assert done.out.count("identical: SHA-256") == 2
    assert "note:" not in done.out

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
    done = await kiln.here("verify", "-", stdin=lines)
    assert done.code == 1, done
    told = done.out.split("blue/")
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


@pytest.mark.usefixtures("lent")
async def test_without_topics_the_request_is_enough_and_another_prompt_is_another_picture(
    pool: GpuPool,
    engine: tuple[EngineProcess, Ready],
    config: GenerationConfig,
    kiln: Kiln,
    tmp_path: Path,
) -> None:
    item = work_item("alone", config=config, prompt="a red fox", seed=11)
    result = (await make(pool, engine, item))["alone"]
    file, request = tmp_path / "result.json", tmp_path / "request.json"
    file.write_bytes(encode(result))
    request.write_text(json.dumps({"request_id": "alone", "tenant": "blue", "prompt": "a red fox"}))
    done = await kiln.here("verify", str(file))
    assert done.code == 2, done
    assert "the decision of blue/alone is no longer retained; give the request by --request FILE" in done.err

    offline = Kiln(kiln.environment | {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    done = await offline.here("verify", str(file), "--request", str(request))
    assert done.code == 0, done
    done = await offline.here("verify", str(file), "--prompt", "a blue fox")
    assert done.code == 1, done
    assert "levels apart at most" in done.out

    newer = result.model_copy(update={"config": result.config.model_copy(update={"hash": "0" * 64})})
    file.write_bytes(encode(newer))
    done = await offline.here("verify", str(file), "--prompt", "a red fox")
    assert done.code == 2, done
    assert "set KILN_CONFIGS to its folder" in done.out
    assert config.config_hash in done.out

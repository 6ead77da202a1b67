"""Configurations that change while everything runs: published, retired and split through control, without a restart."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from admission.world import World
from schemas.catalogue import load_configs
from schemas.config_file import ConfigFile
from schemas.control import PublishConfig, control_key
from schemas.errors import CommandError
from schemas.lock import write_lock
from schemas.topics import Catalogue
from streams.commands.configs_control import channel, publish, retire
from streams.control_log import read_control, say
from streams.kafka.settings import KafkaSettings
from streams.service import AdmissionService
from tests.admission import eventually, running, send, small_world
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL
from tests.kiln import small_deployment
from tests.scripted import ScriptedEngine

TENANT = "atelier"
PASSED_OVER = "kiln_admission_control_passed_over_total"


@pytest.fixture
def world(catalogue: Catalogue) -> World:
    return small_world(catalogue)


@pytest.fixture
def folder(kafka_env: dict[str, str], prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configurations of the commands, locked, in a deployment that the commands find."""
    configs = tmp_path / "configs"
    configs.mkdir()
    for name, value in (kafka_env | small_deployment(prefix, tmp_path) | {"KILN_CONFIGS": str(configs)}).items():
        monkeypatch.setenv(name, value)
    return configs


def etching(folder: Path, *versions: int, steps: int = 4, **more: Any) -> None:
    """A configuration that the deployment under test was not started with."""
    body = {
        "family": "sd15", "model": {"name": "new", "digest": "sha256:" + "1" * 64}, "guidance_scale": 5.0,
        "width": 64, "height": 64, "pool": POOL, "price": {"gpu_seconds": 0.2, "vram_bytes": 1 << 20},
    }  # fmt: skip
    file = {
        "name": "etching",
        "channels": {"stable": versions[0]},
        "versions": {n: {**body, "steps": steps + n} for n in versions},
    }
    (folder / "etching.yaml").write_text(yaml.safe_dump(file | more))
    assert write_lock(load_configs(folder), folder) == []


def ask(kafka: KafkaSettings, catalogue: Catalogue, *ids: str, **ref: Any) -> None:
    send(kafka, catalogue, TENANT, *ids, config={"name": "etching", **ref})


async def seen_by(service: AdmissionService, condition: Callable[[ConfigFile | None], object]) -> None:
    """Wait until admission decides by it."""

    def met() -> bool:
        world = service._world.current if service._world is not None else None
        return world is not None and bool(condition(world.configs.files.get("etching")))

    await eventually(met, what="admission to follow control")


async def test_what_is_published_is_admitted_held_and_run_as_it_was_admitted(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, folder: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A consumer without the weights holds, and says so; what runs keeps the configuration it was admitted with."""
    etching(folder, 1, 2)
    pool, engine = GpuPool(kafka, catalogue, tmp_path / "store"), ScriptedEngine()
    engine.missing = {"new"}
    async with (
        running(kafka, world, "plain") as admission,
        pool.consumer(engine, hold_retry_seconds=0.2) as consumer,
    ):
        await asyncio.to_thread(publish, "etching")
        assert "etching:stable gets etching@1\n" in capsys.readouterr().out
        await seen_by(admission, lambda file: file)
        ask(kafka, catalogue, "early")
        await eventually(lambda: "there is no new" in (consumer.consumer.ready() or ""), what="held, and said")

        await asyncio.to_thread(retire, "etching@1", reason="too dark")
        assert "etching:stable gets nothing (config_retired)" in capsys.readouterr().out
        await seen_by(admission, lambda file: file and file.versions[1].retired)
        ask(kafka, catalogue, "late")
        (late,) = await pool.wait_for_results(1)
        assert (late.request_id, late.code) == ("late", "config_retired")

        await asyncio.to_thread(channel, "etching:stable", ["2"])
        await seen_by(admission, lambda file: file and file.channels["stable"] == {2: 1.0})
        ask(kafka, catalogue, "later")
        engine.missing = set()
        results = {each.request_id: each for each in await pool.wait_for_results(3)}
    assert (results["early"].status, results["early"].config.version) == ("succeeded", 1)
    assert (results["later"].status, results["later"].config.version) == ("succeeded", 2)
    drawn = {batch.config.version: batch.config.steps for batch in engine.batches}
    assert drawn == {1: 5, 2: 6}


async def test_a_canary_is_split_and_taken_back(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, folder: Path, tmp_path: Path
) -> None:
    etching(folder, 1, 2, compatible={9: 2})
    pool = GpuPool(kafka, catalogue, tmp_path / "store")
    async with running(kafka, world, "plain") as admission, pool.consumer():
        await asyncio.to_thread(publish, "etching")
        await asyncio.to_thread(channel, "etching:stable", ["1=1", "2=1"])
        await seen_by(admission, lambda file: file and file.channels["stable"] == {1: 1.0, 2: 1.0})
        split = [f"r{n}" for n in range(40)]
        ask(kafka, catalogue, *split)
        ask(kafka, catalogue, "nine", version=9)
        results = {each.request_id: each.config.version for each in await pool.wait_for_results(41)}
        assert {results[each] for each in split} == {1, 2}
        assert results["nine"] == 2, "declared compatible, and said in the result"

        await asyncio.to_thread(channel, "etching:stable", undo=True)
        await asyncio.to_thread(publish, "etching", undo=True)
        await seen_by(admission, lambda file: file is None)
        with pytest.raises(CommandError, match="nothing to take back"):
            await asyncio.to_thread(publish, "etching", undo=True)


async def test_another_hash_under_a_published_label_is_never_served(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, folder: Path, tmp_path: Path
) -> None:
    etching(folder, 1)
    sketch = world.configs.files["sketch"].model_dump(mode="json")
    sketch["versions"]["1"]["steps"] = 99
    other = PublishConfig(file=ConfigFile.model_validate(sketch))
    pool = GpuPool(kafka, catalogue, tmp_path / "store")
    async with running(kafka, world, "plain") as admission, pool.consumer():
        await asyncio.to_thread(publish, "etching")
        await say(kafka, catalogue, [(control_key("config", "sketch"), other)])
        registry = admission.metrics.registry
        await eventually(
            lambda: registry.get_sample_value(PASSED_OVER, {"reason": "another_hash"}), what="it is passed over"
        )
        send(kafka, catalogue, TENANT, "r1")
        (result,) = await pool.wait_for_results(1)
        assert result.config.hash == world.configs.files["sketch"].versions[1].config_hash

    await asyncio.to_thread(publish, "etching", undo=True)
    controls = await read_control(kafka, catalogue, {})
    assert [label for label, _ in controls.versions] == ["etching@1"], "it is known although its file is taken back"

    (folder / "configs.lock").unlink()  # another checkout, whose lock knows nothing of what was published from here
    etching(folder, 1, steps=50)
    with pytest.raises(CommandError, match="etching@1 is published already, with other pixels"):
        await asyncio.to_thread(publish, "etching")

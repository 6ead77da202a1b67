"""`kiln configs compare` with a real engine on the tiny model."""

import asyncio
from pathlib import Path

import pytest
import yaml
from PIL import Image

from gpu_consumer.commands.compare import compare
from schemas.config import GenerationConfig


@pytest.fixture
def deployment(models: Path, config: GenerationConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools, configs = tmp_path / "pools.yaml", tmp_path / "configs"
    pool = {"gpu_product": "CPU", "vram_bytes": 8 << 30, "price_usd_per_hour": 3.6, "replicas_max": 2, "partitions": 4}
    pools.write_text(yaml.safe_dump({"pools": {config.pool: pool}}))
    configs.mkdir()
    body = config.model_dump(mode="json", exclude={"name", "version"})
    versions = {1: body, 2: {**body, "steps": 3 * config.steps}}
    file = {"name": config.name, "channels": {"stable": {1: 9, 2: 1}}, "versions": versions}
    (configs / f"{config.name}.yaml").write_text(yaml.safe_dump(file))
    monkeypatch.setenv("KILN_POOLS", str(pools))
    monkeypatch.setenv("KILN_CONFIGS", str(configs))
    monkeypatch.setenv("KILN_GPU_MODELS_DIR", str(models))
    monkeypatch.setenv("KILN_GPU_DEVICE", "cpu")


@pytest.mark.usefixtures("deployment", "lent")
async def test_a_canary_is_laid_beside_the_stable_version(
    config: GenerationConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts, sheet = tmp_path / "prompts", tmp_path / "sheet.png"
    prompts.write_text('a kiln\n{"prompt": "桜", "negative_prompt": "smoke"}\na fire\n')
    one, other = f"{config.name}@1", f"{config.name}@2"
    await asyncio.to_thread(compare, one, other, prompts, sheet)
    said = capsys.readouterr().out
    assert f"{one} {config.config_hash[:12]}" in said
    assert said.count("  6 pictures in ") == 2
    assert said.count(" USD a thousand pictures in pool") == 2
    assert f"{other} takes x " in said
    with Image.open(sheet) as image:
        assert image.width > 4 * 192
        assert image.height > 3 * 192
        assert len(image.convert("RGB").getcolors(1 << 24) or ()) > 1000, "pictures, and not only paper"

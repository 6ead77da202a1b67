"""The command, with an engine that does what it is told."""

import io
from pathlib import Path

import pytest
import typer
import yaml
from PIL import Image

from gpu_consumer.commands.compare import compare
from schemas.errors import CommandError
from tests.scripted import ScriptedEngine
from tests.unit.gpu_consumer.work import config


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    """Its pictures are bytes that no viewer takes, so the sheet gets red ones in their place."""
    made = ScriptedEngine()
    monkeypatch.setattr("gpu_consumer.verify.draw.EngineProcess", lambda *_: made)
    monkeypatch.setattr("gpu_consumer.sheets.comparison.still", lambda *_: Image.new("RGB", (8, 8), "red"))
    return made


@pytest.fixture(autouse=True)
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = config().model_dump(mode="json", exclude={"name", "version"})
    versions = {1: body, 2: {**body, "steps": 9}, 3: {**body, "model": {**body["model"], "name": "away"}}}
    file = {"name": "sketch", "channels": {"stable": {1: 9, 2: 1}}, "versions": versions}
    (tmp_path / "sketch.yaml").write_text(yaml.safe_dump(file))
    (tmp_path / body["model"]["name"]).mkdir()
    (tmp_path / "prompts").write_text("a cat\nblank\n")
    monkeypatch.setenv("KILN_CONFIGS", str(tmp_path))
    monkeypatch.setenv("KILN_GPU_MODELS_DIR", str(tmp_path))


def test_both_sides_get_the_same_seeds_and_a_failure_is_an_exit_status(
    engine: ScriptedEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as end:
        compare("sketch@1", "sketch@2", tmp_path / "prompts", tmp_path / "sheet.png", images=3, seed=7)
    assert end.value.exit_code == 1
    said = capsys.readouterr().out
    assert said.count("6 pictures in") == 2
    assert said.count("3 FAILED") == 2
    assert "sketch@2 takes x 1 the GPU-seconds of sketch@1" in said
    for version in (1, 2):
        items = [item for batch in engine.batches if batch.config.version == version for item in batch.items]
        assert [item.seed for item in items] == [7, 8, 9, 7, 8, 9]
    assert engine.starts == 2, "each has an engine to itself"
    with Image.open(io.BytesIO((tmp_path / "sheet.png").read_bytes())) as sheet:
        assert sheet.format == "PNG"


@pytest.mark.parametrize(
    ("one", "other", "sentence"),
    [
        ("sketch@1", "sketch:stable", "sketch:stable is several; name sketch@1 or sketch@2"),
        ("sketch@1", "sketch@3", "sketch@3 needs the model .*away, and that is not there"),
        ("sketch@1", "nothing", "there is no config 'nothing'"),
    ],
)
def test_what_cannot_be_drawn_is_said_before_anything_is(
    engine: ScriptedEngine, tmp_path: Path, one: str, other: str, sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence) as raised:
        compare(one, other, tmp_path / "prompts", tmp_path / "sheet.png")
    assert raised.value.code == 2, "1 is for a picture that failed"
    assert engine.starts == 0
    assert not (tmp_path / "sheet.png").exists()

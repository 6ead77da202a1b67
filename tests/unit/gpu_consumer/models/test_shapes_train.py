"""Some steps of training: seeded, resumed where it stopped, and at its end a pipeline that loads. That a model learns
what it should is seen in tests/integration/test_shapes.py, on the kept one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gpu_consumer.commands.models import app
from gpu_consumer.models.digests import ModelUnavailable, model_digest
from gpu_consumer.models.shapes import descent, kept
from gpu_consumer.models.shapes.descent import Descent
from gpu_consumer.models.shapes.kept import NAME, add_shapes
from gpu_consumer.models.shapes.moving import NAME as MOVING
from gpu_consumer.models.shapes.train import Plan, train_shapes

SHORT = Plan(pictures=6, vae_steps=3, vae_batch=2, decoder_steps=3, decoder_batch=2, unet_steps=3, unet_batch=2)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def line(directory: Path, steps: int, stop_after: int | None = None) -> tuple[torch.Tensor, list[str]]:
    """Teach a layer y = 2x; with `stop_after` the process dies at that step."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = torch.nn.Linear(1, 1)
    said: list[str] = []
    calls = 0

    def loss(chance: torch.Generator) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == stop_after:
            raise KeyboardInterrupt
        x = torch.randn(8, 1, generator=chance)
        return torch.nn.functional.mse_loss(layer(x), 2 * x)

    Descent("line", steps, 0.05, 0, directory / "line.pt", said.append).run([layer], loss)
    return torch.cat([weight.detach().flatten() for weight in layer.parameters()]), said


def test_a_descent_arrives_and_says_how_far_it_is(tmp_path: Path) -> None:
    weights, said = line(tmp_path, 4 * descent._EVERY)
    assert weights.tolist() == pytest.approx([2.0, 0.0], abs=0.05)
    assert [text.split(",")[0] for text in said] == [f"line: step {n * descent._EVERY} of 1000" for n in (1, 2, 3, 4)]


def test_stopped_and_taken_up_again_it_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descent, "_EVERY", 4)
    (tmp_path / "whole").mkdir()
    whole, _ = line(tmp_path / "whole", 12)
    with pytest.raises(KeyboardInterrupt):
        line(tmp_path, 12, stop_after=7)
    resumed, said = line(tmp_path, 12)
    assert torch.equal(resumed, whole)
    assert len(said) == 2


def test_the_same_plan_gives_the_same_model_and_another_seed_another(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    digests = [
        train_shapes(tmp_path / name, plan, print)
        for name, plan in {"a": SHORT, "b": SHORT, "c": replace(SHORT, seed=1)}.items()
    ]
    assert torch.equal(torch.get_rng_state(), before)
    assert digests[0] == digests[1] != digests[2]
    folder = tmp_path / "a" / NAME
    assert digests[0] == model_digest(folder)
    assert [path.name for path in folder.parent.iterdir()] == [NAME]
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 6 << 20


def test_adding_copies_the_kept_model_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT", tmp_path / "kept")
    with pytest.raises(ModelUnavailable, match="kiln models train-shapes"):
        add_shapes(tmp_path / "models")
    (tmp_path / "kept" / "unet").mkdir(parents=True)
    (tmp_path / "kept" / "unet" / "config.json").write_text("{}")
    digest = add_shapes(tmp_path / "models")
    place = tmp_path / "models" / NAME
    assert digest == model_digest(tmp_path / "kept") == model_digest(place)
    written = (place / "unet" / "config.json").stat().st_mtime_ns
    assert add_shapes(tmp_path / "models") == digest
    assert (place / "unet" / "config.json").stat().st_mtime_ns == written
    (place / "unet" / "config.json").write_text("{ }")
    assert add_shapes(tmp_path / "models") == digest == model_digest(place)


def test_the_command_says_digest_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT", tmp_path / "kept")
    absent = CliRunner().invoke(app, ["add-shapes", str(tmp_path / "models")])
    assert absent.exit_code == 1
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "model_index.json").write_text("{}")
    said = CliRunner().invoke(app, ["add-shapes", str(tmp_path / "models")])
    still, moving = (line.split() for line in said.output.splitlines())
    assert still == [model_digest(tmp_path / "kept"), str(tmp_path / "models" / NAME)]
    assert moving == [model_digest(tmp_path / "models" / MOVING), str(tmp_path / "models" / MOVING)]

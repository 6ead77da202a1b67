"""bench-gpu without a card: its models by their shapes alone, its arithmetic, and its course on a card's stand-in."""

import contextlib
import math
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

from gpu_consumer.engine.device import CpuDevice, Usage
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.loading import Loaded
from tests.benchmarks import report as report_module
from tests.benchmarks.gpu import __main__ as bench
from tests.benchmarks.gpu.joins import drive, lengths, request, same_bytes
from tests.benchmarks.gpu.memory import peaks, predicted
from tests.benchmarks.gpu.models import Bench, random_model, real_models, tiny_models
from tests.benchmarks.gpu.peak import data_sheet_flops
from tests.benchmarks.gpu.steps import guided_step
from tests.benchmarks.gpu.swap import swap
from tests.benchmarks.memory.live import LiveTensors
from tests.benchmarks.report import Measure
from tests.stepwise import ROOMY, fresh, loaded, stepwise
from tests.tiny import models

__all__ = ["models"]

DEVICE = CpuDevice(ROOMY)
# As published: 860 million and 2.6 billion in the denoiser, and CLIP ViT-L and OpenCLIP ViT-bigG beside it.
PARAMETERS = {
    "sd15": {"unet": 859_520_964, "text_encoder": 123_060_480, "vae": 83_653_863},
    "sdxl": {"unet": 2_567_463_684, "text_encoder": 123_060_480, "text_encoder_2": 694_659_840, "vae": 83_653_863},
}


class Rehearsal(CpuDevice):
    """The host under a card's name; it measures a peak as a card's allocator does, `weights_bytes` included."""

    name = "cuda"
    weights_bytes = 0

    @contextlib.contextmanager
    def reserve(self, bytes_: int) -> Iterator[Usage]:
        usage = Usage()
        with LiveTensors() as live:
            yield usage
        usage.peak_bytes = self.weights_bytes + live.peak


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=PARAMETERS)
def shapes_alone(request: pytest.FixtureRequest) -> tuple[str, Loaded]:
    return request.param, random_model(request.param, "meta")


def test_the_random_models_have_the_size_of_the_real_ones(shapes_alone: tuple[str, Loaded]) -> None:
    family, model = shapes_alone
    parts = {name: part for name, part in model.pipe.components.items() if isinstance(part, torch.nn.Module)}
    counts = {name: sum(weight.numel() for weight in part.parameters()) for name, part in parts.items()}
    assert counts == PARAMETERS[family]
    assert {weight.dtype for part in parts.values() for weight in part.parameters()} == {torch.float16}
    assert model.weights_bytes == pytest.approx(2 * sum(counts.values()), rel=1e-3)
    assert torch.get_default_dtype() == torch.float32


def test_a_step_and_a_decode_of_them_fit_together(shapes_alone: tuple[str, Loaded]) -> None:
    family, model = shapes_alone
    (plan,) = (each for each in real_models("meta") if each.family == family)
    step = guided_step(model, Shape(plan.size, plan.size, plan.bucket))
    with FlopCounterMode(display=False) as counter:
        noise = step()
    assert noise.shape == (2 * plan.bucket, 4, plan.size // 8, plan.size // 8)
    tera_a_row = counter.get_total_flops() / (2 * plan.bucket) / 1e12
    assert tera_a_row == pytest.approx({"sd15": 0.8, "sdxl": 6.76}[family], rel=0.01)
    with torch.no_grad():
        images = model.family.decode(model.pipe, noise)
    assert images.shape == (2 * plan.bucket, 3, plan.size, plan.size)


def test_the_data_sheet_is_for_the_product_that_it_names() -> None:
    assert data_sheet_flops("NVIDIA H200", torch.float16) == 989e12
    assert data_sheet_flops("NVIDIA A100-SXM4-80GB", torch.bfloat16) == 312e12
    assert data_sheet_flops("NVIDIA H200", torch.float32) is None
    assert data_sheet_flops("NVIDIA H100 80GB HBM3 MIG 1g.10gb", torch.float16) is None


@pytest.mark.parametrize(("bucket", "steps"), [(4, 4), (4, 12), (5, 8), (8, 8)])
def test_those_who_join_have_the_steps_of_three_full_batches_and_no_slot_is_ever_empty(
    models: Path, bucket: int, steps: int
) -> None:
    each = lengths(bucket, steps)
    assert len(each) == 3 * bucket
    assert sum(each) == 3 * bucket * steps
    assert len(set(each)) == 3
    engine = stepwise(loaded(models), Shape(64, 64, bucket))
    assert len(drive(engine, [request(one) for one in each], 1)) == 3 * bucket
    assert engine.steps == 3 * steps


def test_bytes_that_company_changes_are_seen(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh(models)
    shape = Shape(64, 64, 3)
    assert same_bytes(model, DEVICE, shape, 3)
    decode = model.family.decode
    calls = iter(range(100))
    other = type(model.family)(
        model.family.pipeline_class, model.family.encode, lambda pipe, rows: decode(pipe, rows) * (1 + next(calls) / 50)
    )
    monkeypatch.setattr(model, "family", other)
    assert not same_bytes(model, DEVICE, shape, 3)


def test_a_bucket_is_predicted_from_the_others_alone() -> None:
    linear = {bucket: 100 + 50 * bucket for bucket in (1, 2, 4, 8)}
    assert predicted(linear) == linear
    assert predicted({**linear, 4: 1000})[4] == 300


def test_on_the_host_memory_is_measured_from_what_is_alive(models: Path) -> None:
    measured = peaks(loaded(models), DEVICE, 64, (1, 2, 4))
    assert 0 < measured[1] < measured[2] < measured[4]
    told = predicted(measured)
    assert all(told[bucket] == pytest.approx(bytes_, rel=0.05) for bucket, bytes_ in measured.items())


def test_a_model_that_was_away_is_back_as_it_was(models: Path) -> None:
    model = fresh(models)
    before = {name: tensor.clone() for name, tensor in model.pipe.unet.state_dict().items()}
    found = swap(model, DEVICE)
    assert found.bytes >= model.weights_bytes
    assert found.ratio > 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.pipe.unet.state_dict().items())


def test_with_a_card_it_takes_the_cards_course(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsal = Rehearsal(ROOMY)

    def load() -> Loaded:
        model = fresh(models)
        rehearsal.weights_bytes = model.weights_bytes
        return model

    said = StringIO()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(bench, "open_device", lambda settings: rehearsal if settings.device == "cuda" else None)
    monkeypatch.setattr(bench, "real_models", lambda device: (Bench("sd15", load, (64,), (1, 2, 4), 64, 3, 4),))
    monkeypatch.setattr(bench, "data_sheet_flops", lambda product, dtype: 1e12)
    monkeypatch.setattr(bench, "console", Console(file=said, width=200))
    monkeypatch.setattr(report_module, "ROOT", tmp_path)
    monkeypatch.setattr(report_module, "FOLDER", tmp_path)
    seen: dict[str, Measure] = {}

    def report(name: str, measures: dict[str, Measure], console: Console) -> bool:
        seen.update(measures)
        return report_module.report(name, measures, console)

    monkeypatch.setattr(bench, "report", report)
    assert bench.main() == 1, "a tiny model swaps at a small part of the speed of a copy"
    assert {name: measure.bar for name, measure in seen.items() if measure.bar is not None} == {
        "sd15 joining": 0.95,
        "sd15 same bytes": 1,
        "sd15 swap": 0.85,
        "sd15 memory, apart": 0.05,
    }
    assert seen["sd15 same bytes"].met
    assert seen["sd15 memory, apart"].met
    assert not seen["sd15 swap"].met
    assert math.isfinite(seen["sd15 MFU, data sheet"].value)
    assert "no CUDA device" not in said.getvalue()


def test_without_a_card_only_bytes_have_a_bar(models: Path) -> None:
    (first, _) = tiny_models(models)
    plan = Bench(first.family, first.load, (64,), (1, 2, 4), 64, 2, 4)
    measures = bench.measure(DEVICE, (plan,))
    assert [name for name, measure in measures.items() if measure.bar is not None] == ["sd15 same bytes"]

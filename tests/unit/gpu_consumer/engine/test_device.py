from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TypeVar

import pytest
import torch

from gpu_consumer.engine.account import Account
from gpu_consumer.engine.device import CpuDevice, CudaDevice, Device, Reading, open_device
from gpu_consumer.engine.settings import EngineSettings

MIB = 1 << 20
T = TypeVar("T")


def test_the_ledger_runs_out_where_a_card_would() -> None:
    device = CpuDevice(10 * MIB)
    device.hold(4 * MIB)
    assert device.free_bytes() == 6 * MIB
    sentence = "6291457 bytes wanted, 6291456 of 10485760 are free"
    with pytest.raises(torch.OutOfMemoryError, match=sentence), device.reserve(6 * MIB + 1):
        pytest.fail("reserved more than is free")
    with device.reserve(6 * MIB) as usage:
        assert device.free_bytes() == 0
        with pytest.raises(torch.OutOfMemoryError), device.reserve(1):
            pytest.fail("reserved more than is free")
    assert usage.peak_bytes == 10 * MIB
    assert device.free_bytes() == 6 * MIB


def test_a_reservation_ends_with_its_batch_however_that_ends() -> None:
    device = CpuDevice(10 * MIB)
    with pytest.raises(ValueError, match="bad"), device.reserve(MIB):
        raise ValueError("bad")
    assert device.free_bytes() == 10 * MIB


def test_another_model_takes_the_place_of_the_former() -> None:
    device = CpuDevice(10 * MIB)
    device.hold(8 * MIB)
    device.hold(9 * MIB)
    with pytest.raises(torch.OutOfMemoryError):
        device.hold(11 * MIB)
    assert device.free_bytes() == MIB
    device.hold(0)
    assert device.free_bytes() == 10 * MIB


def test_two_workers_have_half_of_what_their_shared_weights_leave() -> None:
    device = CpuDevice(10 * MIB, workers=2)
    assert device.free_bytes() == 5 * MIB
    device.hold(6 * MIB, shared_bytes=6 * MIB, borrowed_bytes=6 * MIB)
    assert device.free_bytes() == 2 * MIB
    with device.reserve(MIB) as usage:
        assert device.reading() == Reading(allocated=MIB, reserved=MIB, free=MIB)
    assert usage.peak_bytes == 7 * MIB, "weights included, whoever brought them"
    with pytest.raises(torch.OutOfMemoryError, match="9437184 bytes wanted, 8388608 of 10485760 are free"):
        device.hold(9 * MIB, shared_bytes=6 * MIB)
    assert device.free_bytes() == 2 * MIB
    device.hold(8 * MIB, shared_bytes=6 * MIB)
    assert device.free_bytes() == 0


def test_an_account_adds_up_over_tries_and_keeps_the_highest_peak() -> None:
    account = Account(CpuDevice(10 * MIB), bucket=4)
    for bytes_ in (2 * MIB, 6 * MIB, 4 * MIB):
        with account.memory(bytes_), account.stage("denoise"):
            pass
    with pytest.raises(torch.OutOfMemoryError), account.memory(11 * MIB):
        pytest.fail("reserved more than is free")
    with pytest.raises(ValueError, match="bad"), account.stage("decode"):
        raise ValueError("bad")
    account.add("encode", 100.0)
    assert account.peak_bytes == 6 * MIB
    assert account.timings.keys() == {"denoise", "decode", "encode"}
    assert account.timings["encode"] == 100.0


def test_a_device_is_opened_with_the_threads_of_the_setting() -> None:
    device = open_device(EngineSettings(threads=1, cpu_memory_bytes=3 * MIB))
    assert torch.get_num_threads() == 1
    assert device.info().memory_bytes == 3 * MIB
    assert device.info().product.startswith("CPU")


class Faulty(CpuDevice):
    """Refuses one key, as tests of faults do."""

    def run(self, stage: str, keys: Sequence[str], work: Callable[[], T]) -> T:
        if "bad" in keys:
            raise ValueError(f"bad in {stage}")
        return super().run(stage, keys, work)


def faulty(settings: EngineSettings) -> Device:
    return Faulty(settings.cpu_memory_bytes)


def test_a_device_of_an_import_path_stands_between() -> None:
    device = open_device(EngineSettings(device=f"{__name__}:faulty", cpu_memory_bytes=3 * MIB))
    assert device.info().memory_bytes == 3 * MIB
    assert device.run("denoise", ("good",), lambda: 7) == 7
    with pytest.raises(ValueError, match="bad in denoise"):
        device.run("denoise", ("good", "bad"), lambda: pytest.fail("ran"))


@pytest.mark.parametrize("path", [f"{__name__}:missing", "no.such.module:device"])
def test_a_device_that_cannot_be_imported_is_said(path: str) -> None:
    with pytest.raises(RuntimeError, match=f"the device {path} cannot be imported"):
        open_device(EngineSettings(device=path))


@pytest.mark.parametrize("device", ["gpu", "", "module:", ":make", "cpu "])
def test_a_device_is_cpu_cuda_or_an_import_path(device: str) -> None:
    with pytest.raises(ValueError, match="device"):
        EngineSettings(device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_missing_card_is_said_with_the_cure() -> None:
    with pytest.raises(RuntimeError, match="CUDA_VISIBLE_DEVICES"):
        open_device(EngineSettings(device="cuda"))


GB = 10**9


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the driver and the allocator of a pretended card of 80 GB say; the device under test only reads it."""
    said = {"free": 80 * GB, "allocated": 0, "reserved": 0, "split": 0}
    properties = SimpleNamespace(name="card", uuid="0", total_memory=80 * GB)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (said["free"], 80 * GB))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda each: said.update(share=int(100 * each)))
    names = {"allocated_bytes": "allocated", "reserved_bytes": "reserved", "inactive_split_bytes": "split"}
    monkeypatch.setattr(
        torch.cuda, "memory_stats", lambda: {f"{name}.all.current": said[key] for name, key in names.items()}
    )
    return said


def test_float32_is_float32(card: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    open_device(EngineSettings(device="cuda"))
    assert not torch.backends.cudnn.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"


def test_what_neighbours_take_is_not_free(card: dict[str, int]) -> None:
    """Case GPU-13: asked each time, for another process may have taken it since."""
    device = open_device(EngineSettings(device="cuda"))
    assert device.free_bytes() == 80 * GB
    card.update(free=30 * GB, reserved=20 * GB, allocated=12 * GB, split=3 * GB)
    assert device.free_bytes() == 35 * GB
    assert device.reading() == Reading(allocated=12 * GB, reserved=20 * GB, free=35 * GB)
    card.update(free=0)
    assert device.free_bytes() == 5 * GB


def test_a_process_keeps_below_its_part_of_the_card(card: dict[str, int]) -> None:
    device = open_device(EngineSettings(device="cuda", gpu_memory_fraction=0.5))
    assert card["share"] == 50
    assert device.free_bytes() == 40 * GB
    card.update(free=60 * GB, reserved=20 * GB, allocated=20 * GB)
    assert device.free_bytes() == 20 * GB


@pytest.mark.parametrize("borrowed", [0, 20 * GB])
def test_a_worker_is_told_its_part_of_the_card_whoever_brought_the_weights(card: dict[str, int], borrowed: int) -> None:
    device = open_device(EngineSettings(device="cuda", workers=2))
    device.hold(20 * GB, shared_bytes=20 * GB, borrowed_bytes=borrowed)
    own = 20 * GB - borrowed  # what this process's allocator knows of
    card.update(free=60 * GB, allocated=own, reserved=own)
    assert device.free_bytes() == 30 * GB
    card.update(free=50 * GB, allocated=own + 10 * GB, reserved=own + 10 * GB)
    assert device.free_bytes() == 20 * GB, "what a batch of its own has taken is taken of its part"
    card.update(free=5 * GB)
    assert device.free_bytes() == 5 * GB, "a neighbour outside of the team took it"


def test_the_peak_of_a_borrower_has_the_weights_in_it(card: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * GB)
    device = open_device(EngineSettings(device="cuda", workers=2))
    device.hold(20 * GB, shared_bytes=20 * GB, borrowed_bytes=20 * GB)
    with device.reserve(1) as usage:
        pass
    assert usage.peak_bytes == 23 * GB


def test_work_on_a_card_is_named_for_its_profiler(card: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[str | None] = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", ranges.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: ranges.append(None))
    assert CudaDevice().run("decode", ("a", "b"), lambda: [*ranges]) == ["decode a b"]
    assert ranges == ["decode a b", None]

"""NVML may be missing, unwell, or know nothing of us: an engine starts all the same."""

import sys
from types import ModuleType
from typing import Any, Never

import pytest

from gpu_consumer.engine import nvml
from gpu_consumer.engine.visible import Card


class NVMLError(Exception):
    pass


def stub(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    module = ModuleType("pynvml")
    module.NVMLError = NVMLError  # type: ignore[attr-defined]
    module.NVML_DEVICE_MIG_ENABLE = 1  # type: ignore[attr-defined]
    for name in ("nvmlInit", "nvmlShutdown"):
        setattr(module, name, lambda: None)
    for name, function in functions.items():
        setattr(module, name, function)
    monkeypatch.setitem(sys.modules, "pynvml", module)


def fail(*_: Any) -> Never:
    raise NVMLError("driver/library version mismatch")


def test_nvml_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.cards() == []


def test_nvml_does_not_match_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    # case GPU-07
    stub(monkeypatch, nvmlInit=fail)
    assert nvml.cards() == []
    stub(monkeypatch, nvmlDeviceGetCount=fail, nvmlShutdown=fail)
    assert nvml.cards() == []


def test_cards_and_their_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {(0, 0): "MIG-a", (0, 2): "MIG-c"}

    def slice_at(card: int, place: int) -> tuple[int, int]:
        if (card, place) not in places:
            raise NVMLError("not found")
        return card, place

    def mig_mode(card: int) -> list[int]:
        if card == 1:
            raise NVMLError("not supported")
        return [1, 1]

    stub(
        monkeypatch,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda n: n,
        nvmlDeviceGetUUID=lambda handle: places[handle] if isinstance(handle, tuple) else f"GPU-{handle}",
        nvmlDeviceGetMigMode=mig_mode,
        nvmlDeviceGetMaxMigDeviceCount=lambda card: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=slice_at,
    )
    assert nvml.cards() == [Card("GPU-0", ("MIG-a", "MIG-c")), Card("GPU-1")]

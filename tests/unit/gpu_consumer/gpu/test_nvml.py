"""NVML may be missing, unwell, or know nothing of us."""

import sys
from unittest.mock import patch

import pytest

from gpu_consumer.gpu.nvml import CardLost, Nvml, NvmlUnavailable
from gpu_consumer.gpu.visible import Card
from tests.unit.gpu_consumer.gpu.fake import (
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    LOST,
    M1,
    M2,
    MISMATCH,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    UNINITIALISED,
    A,
    B,
    FakeCard,
    FakeNvml,
)


def test_it_is_not_installed() -> None:
    with patch.dict(sys.modules, {"pynvml": None}), pytest.raises(NvmlUnavailable, match=r"install promptkiln\[gpu\]"):
        Nvml.open()


def test_the_real_binding_without_a_driver() -> None:
    pynvml = pytest.importorskip("pynvml")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        with pytest.raises(NvmlUnavailable, match="NVML"):
            Nvml.open()
    else:
        pynvml.nvmlShutdown()
        pytest.skip("there is a driver here")


@pytest.mark.parametrize("code", [UNINITIALISED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, MISMATCH])
def test_a_driver_that_went_away(code: int) -> None:
    """Case GPU-07."""
    with FakeNvml(FakeCard(A)).installed() as api:
        nvml = Nvml.open()
        api.fails["*"] = code
        with pytest.raises(NvmlUnavailable, match="restart the node" if code == MISMATCH else "does not answer"):
            nvml.cards()
        with pytest.raises(NvmlUnavailable):
            Nvml.open()


@pytest.mark.parametrize("code", [LOST, RESET_REQUIRED])
def test_a_card_that_is_lost(code: int) -> None:
    with FakeNvml(FakeCard(A)).installed() as api:
        nvml = Nvml.open()
        api.fails["nvmlDeviceGetPowerUsage"] = code
        with pytest.raises(CardLost):
            nvml.ask("nvmlDeviceGetPowerUsage", api.present[0])


def test_what_is_not_told_is_none() -> None:
    with FakeNvml(FakeCard(A)).installed() as api:
        nvml = Nvml.open()
        for reason in (NOT_SUPPORTED, NO_PERMISSION, OSError("no"), UnicodeDecodeError("utf-8", b"", 0, 1, "no")):
            api.fails["nvmlDeviceGetPowerUsage"] = reason
            assert nvml.ask("nvmlDeviceGetPowerUsage", api.present[0]) is None
        assert nvml.ask("nvmlDeviceGetWhatANewerBindingHas") is None


def test_cards_and_their_slices() -> None:
    with FakeNvml(FakeCard(A, slices=(M1, M2)), FakeCard(B)).installed():
        nvml = Nvml.open()
        assert nvml.cards() == [Card(A, (M1, M2)), Card(B)]
        nvml.close()
        nvml.close()  # once too often is nobody's trouble

"""Our card by UUID or PCI id, whatever its index is to NVML."""

import pytest

from gpu_consumer.gpu.identity import Handles, find, own_uuid, visible_uuid
from gpu_consumer.gpu.nvml import CardLost, Nvml
from tests.unit.gpu_consumer.gpu.fake import LOST, M1, M2, MISMATCH, A, B, FakeCard, FakeNvml, NVMLError

SLICED = FakeCard(A, slices=(M1, M2))
PLAIN = FakeCard(B, pci="00000000:CA:00.0")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, M1),
        ({"CUDA_VISIBLE_DEVICES": "1"}, B),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1a2b,0"}, M1),
        ({"CUDA_VISIBLE_DEVICES": M2}, M2),
        ({"CUDA_VISIBLE_DEVICES": "MIG-9d"}, M2),
        ({"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "all"}, None),
        # `void` is also said in a container that was given its card by the container device interface.
        ({"CUDA_VISIBLE_DEVICES": "1", "NVIDIA_VISIBLE_DEVICES": "void"}, B),
        ({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, None),
        ({"CUDA_VISIBLE_DEVICES": B, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, B),
    ],
)
def test_the_visible_device(environment: dict[str, str], expected: str | None) -> None:
    """Case GPU-08."""
    with FakeNvml(SLICED, PLAIN).installed() as nvml:
        assert visible_uuid(environment) == expected
        assert nvml.sessions == 0


def test_no_card_is_let_into_this_container() -> None:
    with FakeNvml().installed():
        assert visible_uuid({"NVIDIA_VISIBLE_DEVICES": "void"}) is None


def test_without_nvml_only_what_is_written_out_is_known() -> None:
    """Case GPU-07."""
    with FakeNvml(PLAIN).installed() as nvml:
        nvml.fails["nvmlInit"] = MISMATCH
        assert visible_uuid({"CUDA_VISIBLE_DEVICES": B}) == B
        assert visible_uuid({"CUDA_VISIBLE_DEVICES": "0"}) is None


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (B, Handles(B, B, PLAIN)),
        ("CA:00.0", Handles(B, B, PLAIN)),
        ("00000000:65:00.0", Handles(A, A, SLICED)),
        (M2, Handles(M2, A, SLICED, (SLICED, 1), 8)),
        ("MIG-unknown", None),
        ("GPU-unknown", None),
        ("11:00.0", None),
    ],
)
def test_a_device_is_found(device: str, expected: Handles | None) -> None:
    with FakeNvml(PLAIN, SLICED).installed():
        nvml = Nvml.open()
        assert find(nvml, device) == expected


def test_a_lost_card_keeps_its_place() -> None:
    with FakeNvml(FakeCard(A), PLAIN).installed() as api:
        nvml = Nvml.open()
        api.fails["nvmlDeviceGetHandleByIndex"] = LOST
        with pytest.raises(CardLost):
            own_uuid(nvml, {"CUDA_VISIBLE_DEVICES": "0"})
        assert own_uuid(nvml, {"CUDA_VISIBLE_DEVICES": "2"}) is None
        api.fails["nvmlDeviceGetHandleByIndex"] = NVMLError(4)  # not let into this container: CUDA does not count it
        assert nvml.cards() == []
    with FakeNvml(FakeCard(A)).installed() as api:
        api.fails["nvmlDeviceGetUUID"] = LOST
        assert visible_uuid({}) is None

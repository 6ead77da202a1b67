import pytest
import torch

from gpu_consumer.engine.faults import Sticky, trouble
from gpu_consumer.engine.pixels import defect, to_uint8


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        MemoryError(),
    ],
)
def test_memory_that_ran_out_is_no_lost_device(error: Exception) -> None:
    assert trouble(error).out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        torch.AcceleratorError("anything"),
    ],
)
def test_a_poisoned_context_is_lost(error: Exception) -> None:
    # case GPU-01
    with pytest.raises(Sticky):
        trouble(error)


def test_anything_else_is_a_sentence_about_an_item() -> None:
    found = trouble(ValueError("first\n   second" + "x" * 1000))
    assert found.code == "generation_error"
    assert "ValueError: first second" in found.message
    assert len(found.message) < 400


def test_what_is_a_picture() -> None:
    # case DIF-13
    noise = torch.linspace(-1, 1, 3 * 8 * 8).reshape(3, 8, 8)
    assert defect(noise) is None
    for number in (float("nan"), float("inf")):
        spoilt = noise.clone()
        spoilt[2, 7, 7] = number
        assert defect(spoilt) == "non_finite"
    assert defect(torch.full((3, 8, 8), -1.0)) == "blank_output"
    assert defect(torch.tensor([0.1, 0.2, 0.3])[:, None, None].expand(3, 8, 8)) == "blank_output"
    assert defect(noise.to(torch.float16)) is None


def test_levels_are_rounded_and_clamped() -> None:
    row = torch.tensor([-3.0, -1.0, 0.0, 0.999, 1.0, 7.0])
    assert to_uint8(row.expand(1, 3, 1, 6))[0, 0, :, 0].tolist() == [0, 0, 128, 255, 255, 255]

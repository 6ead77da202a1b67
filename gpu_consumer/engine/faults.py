"""What an exception in a pipeline means: less memory, a bad item, or a process that is past saving."""

from dataclasses import dataclass

import torch

from gpu_consumer.engine.protocol import FlawCode

# cuBLAS and cuDNN say it in a plain RuntimeError.
_OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
_DOES_NOT_FIT = "the picture does not fit into the device's memory, alone in a batch: "
# After one of these the CUDA context is poisoned: every later call fails, or worse, answers with garbage.
_STICKY = (
    "CUDA error",
    "CUDA driver error",
    "device-side assert",
    "illegal memory access",
    "unspecified launch failure",
)


class Sticky(Exception):
    """The device is lost to this process. Nothing it makes from here on may be published: end it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An exception in words. Its frames, and the tensors they hold, are left behind."""

    code: FlawCode
    message: str

    @property
    def out_of_memory(self) -> bool:
        return self.code == "out_of_memory"


def trouble(error: Exception) -> Trouble:
    """Raises Sticky if the error says that the device is lost."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or any(mark in text for mark in _OUT_OF_MEMORY):
        return Trouble("out_of_memory", _DOES_NOT_FIT + text.removeprefix(_DOES_NOT_FIT))
    if isinstance(error, torch.AcceleratorError) or any(mark in text for mark in _STICKY):
        raise Sticky(text) from None
    return Trouble("generation_error", f"the pipeline failed on this item: {type(error).__name__}: {text}")

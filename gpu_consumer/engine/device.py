"""The device an engine runs on: its identity, its memory, and the account of a batch. Imports torch: engine only."""

import contextlib
import importlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import torch

from gpu_consumer.engine.protocol import DeviceInfo
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.gpu.identity import visible_uuid
from gpu_consumer.memory import left_to_one, usable

T = TypeVar("T")


@dataclass(slots=True)
class Usage:
    """Filled when a reservation ends: the highest memory in use meanwhile, weights included, in bytes."""

    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes, right now: `allocated` and `reserved` by this process, `free` of the device as in free_bytes."""

    allocated: int
    reserved: int
    free: int


class Device(Protocol):
    @property
    def name(self) -> str:
        """What torch calls it."""
        ...

    def info(self) -> DeviceInfo: ...

    def free_bytes(self) -> int:
        """What a batch can have right now, neighbours on the same card considered. Ask right before the batch."""
        ...

    def reading(self) -> Reading:
        """For people to look at, once a second or so."""
        ...

    def hold(self, weights_bytes: int, *, shared_bytes: int = 0, borrowed_bytes: int = 0) -> None:
        """Book the weights of all loaded models, in place of what was booked. Raises torch.OutOfMemoryError.

        `shared_bytes` of them are there once for all processes of a team, `borrowed_bytes` brought by another of these.
        """
        ...

    def reserve(self, bytes_: int) -> contextlib.AbstractContextManager[Usage]:
        """Around a batch expected to need `bytes_` beside the weights. Raises torch.OutOfMemoryError."""
        ...

    def run(self, stage: str, keys: Sequence[str], work: Callable[[], T]) -> T:
        """The result of `work()`, which gives the device work of `stage` for the items with these keys: text, denoise,
        decode, or decode again, of a picture that cannot be published.

        All of the device's work goes through here, so that a profiler sees its stages, and a test can stand between.
        Raises what `work` raises.
        """
        ...

    def synchronise(self) -> None:
        """Block until the device has done all it was given."""
        ...

    def empty_cache(self) -> None: ...


class CpuDevice:
    """The host, with a ledger in place of a card's memory: it runs out of memory where a card of that size would.

    Each of `workers` processes has a ledger of its own, which is its part of one memory (memory.left_to_one).
    """

    name = "cpu"

    def __init__(self, memory_bytes: int, workers: int = 1) -> None:
        self._memory_bytes = memory_bytes
        self._workers = workers
        self._weights_bytes = 0
        self._borrowed_bytes = 0
        self._left_bytes = left_to_one(memory_bytes, workers, 0, 0)
        self._reserved_bytes = 0

    def info(self) -> DeviceInfo:
        return DeviceInfo(_processor(), f"cpu-{socket.gethostname()}", self._memory_bytes)

    def free_bytes(self) -> int:
        return self._left_bytes - self._reserved_bytes

    def reading(self) -> Reading:
        booked = self._weights_bytes - self._borrowed_bytes + self._reserved_bytes
        return Reading(booked, booked, self.free_bytes())

    def hold(self, weights_bytes: int, *, shared_bytes: int = 0, borrowed_bytes: int = 0) -> None:
        left = left_to_one(self._memory_bytes, self._workers, weights_bytes, shared_bytes)
        self._refuse_above(left - self._reserved_bytes + weights_bytes, weights_bytes)
        self._weights_bytes, self._borrowed_bytes, self._left_bytes = weights_bytes, borrowed_bytes, left

    @contextlib.contextmanager
    def reserve(self, bytes_: int) -> Iterator[Usage]:
        self._refuse_above(self.free_bytes(), bytes_)
        self._reserved_bytes += bytes_
        usage = Usage(self._weights_bytes + self._reserved_bytes)
        try:
            yield usage
        finally:
            self._reserved_bytes -= bytes_

    def run(self, stage: str, keys: Sequence[str], work: Callable[[], T]) -> T:
        return work()

    def synchronise(self) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def _refuse_above(self, free_bytes: int, bytes_: int) -> None:
        if bytes_ > free_bytes:
            raise torch.OutOfMemoryError(
                f"CPU device out of memory: {bytes_} bytes wanted, {free_bytes} of {self._memory_bytes} are free"
            )


class CudaDevice:
    """The first visible card or MIG slice. NVML tells its identity where it can, and is never needed.

    `memory_fraction`: of the card's memory, what this process may take, or all of the `workers` of a team together.
    """

    name = "cuda"

    def __init__(self, memory_fraction: float = 1.0, workers: int = 1) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError("no CUDA device is visible; set CUDA_VISIBLE_DEVICES, or run with the cpu device")
        torch.backends.cudnn.benchmark = False  # it may choose another kernel each time: other bytes
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False  # float32 means float32, in convolutions as in products of matrices
        properties = torch.cuda.get_device_properties(0)
        uuid = visible_uuid(os.environ)
        self._info = DeviceInfo(properties.name, uuid or f"GPU-{properties.uuid}", properties.total_memory)
        self._cap = int(memory_fraction * properties.total_memory)
        self._workers = workers
        self._weights = (0, 0, 0)
        torch.cuda.set_per_process_memory_fraction(memory_fraction)

    def info(self) -> DeviceInfo:
        return self._info

    def free_bytes(self) -> int:
        return self.reading().free

    def reading(self) -> Reading:
        free, _ = torch.cuda.mem_get_info()
        stats = torch.cuda.memory_stats()
        allocated, reserved, split = (
            stats.get(f"{name}.all.current", 0)
            for name in ("allocated_bytes", "reserved_bytes", "inactive_split_bytes")
        )
        # The driver does not know of the cap: it refuses the allocator, not the card.
        free = min(free, max(0, self._cap - reserved))
        free = usable(free, reserved, allocated, split)
        if self._workers > 1:  # two that ask at the same time are not to be given the same bytes
            weights, shared, borrowed = self._weights
            taken = max(0, allocated - (weights - borrowed))
            free = min(free, max(0, left_to_one(self._cap, self._workers, weights, shared) - taken))
        return Reading(allocated, reserved, free)

    def hold(self, weights_bytes: int, *, shared_bytes: int = 0, borrowed_bytes: int = 0) -> None:
        """Only to know what is others' of a team: the allocator keeps the account itself."""
        self._weights = (weights_bytes, shared_bytes, borrowed_bytes)

    @contextlib.contextmanager
    def reserve(self, bytes_: int) -> Iterator[Usage]:
        torch.cuda.reset_peak_memory_stats()
        usage = Usage()
        try:
            yield usage
        finally:
            # Our own allocator, not NVML: in a container NVML lists the host's process ids and we are not among them.
            _, _, borrowed = self._weights  # from another process's allocator
            usage.peak_bytes = torch.cuda.max_memory_allocated() + borrowed

    def run(self, stage: str, keys: Sequence[str], work: Callable[[], T]) -> T:
        with torch.cuda.nvtx.range(f"{stage} {' '.join(keys)}"):
            return work()

    def synchronise(self) -> None:
        torch.cuda.synchronize()

    def empty_cache(self) -> None:
        torch.cuda.empty_cache()


def open_device(settings: EngineSettings) -> Device:
    """Fix threads and numerics of this process, once, and open the device. Raises RuntimeError where there is none."""
    torch.set_num_threads(settings.threads)
    torch.set_float32_matmul_precision("highest")
    if settings.device == "cuda":
        return CudaDevice(settings.gpu_memory_fraction, settings.workers)
    if settings.device == "cpu":
        return CpuDevice(settings.cpu_memory_bytes, settings.workers)
    return _imported(settings)


def _imported(settings: EngineSettings) -> Device:
    module, _, name = settings.device.partition(":")
    try:
        make = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise RuntimeError(f"the device {settings.device} cannot be imported ({error}); correct its path") from error
    device: Device = make(settings)
    return device


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"CPU {line.partition(':')[2].strip()}"
    return "CPU"

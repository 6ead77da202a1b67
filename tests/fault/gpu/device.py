"""A CPU device that fails as a plan says. An engine opens it where its settings name faults.DEVICE."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.settings import EngineSettings
from tests.fault.gpu.faults import PLAN, Fault, Log, Plan

T = TypeVar("T")


def make(settings: EngineSettings) -> "FaultyDevice":
    """With the plan that the environment names."""
    return FaultyDevice(settings.cpu_memory_bytes, Path(os.environ[PLAN]))


class FaultyDevice(CpuDevice):
    """The first rows of what a stage gives belong to the keys it was given, in their order."""

    def __init__(self, memory_bytes: int, plan: Path) -> None:
        super().__init__(memory_bytes)
        self._plan = Plan.read(plan)
        self._log = Log(plan)
        self._seen: set[str] = set()
        before = self._log.read()
        self._start = 1 + sum(line.event == "start" for line in before)
        self._struck = [sum(line.fault == n for line in before) for n in range(len(self._plan.faults))]
        self._log.write("start")

    def run(self, stage: str, keys: Sequence[str], work: Callable[[], T]) -> T:
        new = [key for key in keys if "/" in key and key not in self._seen]  # of jobs, and not the warm-up's
        if new:
            self._seen.update(new)
            self._log.write("work", keys=new)
        struck = [(n, fault) for n, fault in enumerate(self._plan.faults) if self._strikes(n, fault, stage, keys)]
        for n, fault in struck:
            self._struck[n] += 1
            self._log.write("fault", fault=n, keys=keys)
            _break(fault)
        if stage == "denoise":
            time.sleep(self._plan.pace_seconds)
        result: Any = super().run(stage, keys, work)
        for _, fault in struck:
            result = _spoiled(result, _place(fault, keys), fault)
        return cast(T, result)

    def _strikes(self, n: int, fault: Fault, stage: str, keys: Sequence[str]) -> bool:
        return (
            fault.stage == stage
            and any(key.startswith(fault.job) for key in keys)
            and len(keys) > fault.above
            and (fault.times is None or self._struck[n] < fault.times)
            and self._start >= fault.from_start
        )


def _place(fault: Fault, keys: Sequence[str]) -> int:
    return next(n for n, key in enumerate(keys) if key.startswith(fault.job))


def _break(fault: Fault) -> None:
    """What the stage does instead of its work; returns where the work is done and its result spoiled."""
    match fault.kind:
        case "out_of_memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        case "host_out_of_memory":
            raise MemoryError
        case "error":
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (77x32 and 64x64)")
        case "sticky":
            raise torch.AcceleratorError("CUDA error: device-side assert triggered")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            threading.Event().wait()


def _spoiled(result: Any, place: int, fault: Fault) -> Any:
    """`result`, a tensor with a row an item or a mapping with an entry an item, its row at `place` changed."""
    if fault.kind == "wrong_pixels":
        return result + 0.1
    level = float("nan") if fault.kind == "non_finite" else 0.25
    if isinstance(result, torch.Tensor):
        rows = result.clone()
        rows[place] = level
        return rows
    name = list(result)[place]
    return {**result, name: torch.full_like(result[name], level)}

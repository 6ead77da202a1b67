"""A card that answers as NVML does: the one thing in these tests that is not real."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

UNINITIALISED, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED = 1, 3, 4, 6, 9
TIMEOUT, LIBRARY_NOT_FOUND, LOST, RESET_REQUIRED, MISMATCH, UNKNOWN = 10, 12, 15, 16, 18, 999
A, B = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-1a2b3c4d-0000-4106-c12f-20bd9faed9f6"
M1, M2 = "MIG-7c1f3a10-5a5c-5b8e-9d2e-0d6a3c9b2f11", "MIG-9d1f3a10-ffff-5b8e-9d2e-0d6a3c9b2f11"
GIB = 1 << 30


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


@dataclass
class FakeCard:
    uuid: str
    pci: str = "00000000:65:00.0"
    slices: tuple[str, ...] = ()  # at places 0, 2, 4 ..., with GPU instances 7, 8, ...
    used: Any = 10 * GIB
    total: Any = 80 * GIB
    busy: Any = 50
    milliwatts: Any = 300_000
    celsius: Any = 60
    reasons: Any = 0
    ecc: Any = 0
    remapped: tuple[Any, ...] = (0, 0, 0, 0)
    retiring: Any = 0
    events: list[tuple[int, int]] = field(default_factory=list)  # Xid, GPU instance


class FakeNvml:
    """The module `pynvml`. `fails`: error codes by function, `*` for all; `calls`: every function called."""

    NVMLError = NVMLError

    def __init__(self, *cards: FakeCard) -> None:
        self.present = list(cards)
        self.fails: dict[str, int | Exception] = {}
        self.calls: list[str] = []
        self.sessions = 0

    def __getattr__(self, name: str) -> Any:
        answer = _ANSWERS.get(name)
        if answer is None:
            raise AttributeError(name)

        def function(*arguments: Any) -> Any:
            self.calls.append(name)
            error = self.fails.get(name, self.fails.get("*"))
            if error is not None:
                raise error if isinstance(error, Exception) else NVMLError(error)
            if self.sessions == 0 and name != "nvmlInit":
                raise NVMLError(UNINITIALISED)
            return answer(self, *arguments)

        return function

    @contextmanager
    def installed(self) -> Iterator["FakeNvml"]:
        with patch.dict(sys.modules, {"pynvml": self}):
            yield self


def _init(nvml: FakeNvml) -> None:
    nvml.sessions += 1


def _shutdown(nvml: FakeNvml) -> None:
    nvml.sessions -= 1


def _by(nvml: FakeNvml, what: str, value: str) -> FakeCard:
    for card in nvml.present:
        if getattr(card, what).endswith(value):
            return card
    raise NVMLError(NOT_FOUND)


def _slice_at(_: FakeNvml, card: FakeCard, place: int) -> tuple[FakeCard, int]:
    if place % 2 or place // 2 >= len(card.slices):
        raise NVMLError(NOT_FOUND)
    return card, place // 2


def _mig_mode(_: FakeNvml, card: FakeCard) -> list[int]:
    if not card.slices:
        raise NVMLError(NOT_SUPPORTED)
    return [1, 1]


def _uuid(_: FakeNvml, handle: Any) -> str:
    return str(handle[0].slices[handle[1]] if isinstance(handle, tuple) else handle.uuid)


def _memory(_: FakeNvml, handle: Any) -> Any:
    if isinstance(handle, tuple):
        return SimpleNamespace(used=GIB, total=10 * GIB)
    return SimpleNamespace(used=handle.used, total=handle.total)


def _utilisation(_: FakeNvml, card: Any) -> Any:
    if card.slices:
        raise NVMLError(NOT_SUPPORTED)
    return SimpleNamespace(gpu=card.busy, memory=1)


def _wait(nvml: FakeNvml, registered: list[FakeCard], milliseconds: int) -> Any:
    assert milliseconds == 0, "the sampler waits by itself"
    for card in registered:
        if card.events:
            xid, instance = card.events.pop(0)
            return SimpleNamespace(eventType=8, eventData=xid, gpuInstanceId=instance, computeInstanceId=0)
    raise NVMLError(TIMEOUT)


_ANSWERS: dict[str, Any] = {
    "nvmlInit": _init,
    "nvmlShutdown": _shutdown,
    "nvmlSystemGetDriverVersion": lambda _: "580.65.06",
    "nvmlDeviceGetCount": lambda nvml: len(nvml.present),
    "nvmlDeviceGetHandleByIndex": lambda nvml, number: nvml.present[number],
    "nvmlDeviceGetHandleByUUID": lambda nvml, uuid: _by(nvml, "uuid", uuid),
    "nvmlDeviceGetHandleByPciBusId": lambda nvml, pci: _by(nvml, "pci", pci),
    "nvmlDeviceGetUUID": _uuid,
    "nvmlDeviceGetName": lambda _, card: "NVIDIA H200",
    "nvmlDeviceGetMigMode": _mig_mode,
    "nvmlDeviceGetMaxMigDeviceCount": lambda _, card: 7,
    "nvmlDeviceGetMigDeviceHandleByIndex": _slice_at,
    "nvmlDeviceGetGpuInstanceId": lambda _, handle: handle[1] + 7,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetUtilizationRates": _utilisation,
    "nvmlDeviceGetPowerUsage": lambda _, card: card.milliwatts,
    "nvmlDeviceGetTemperature": lambda _, card, sensor: card.celsius,
    "nvmlDeviceGetClockInfo": lambda _, card, clock: {1: 1980, 2: 3201}[clock],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda _, card: card.reasons,
    "nvmlDeviceGetTotalEccErrors": lambda _, card, kind, since: card.ecc if (kind, since) == (1, 0) else 999,
    "nvmlDeviceGetRemappedRows": lambda _, card: card.remapped,
    "nvmlDeviceGetRetiredPagesPendingStatus": lambda _, card: card.retiring,
    "nvmlEventSetCreate": lambda _: [],
    "nvmlDeviceRegisterEvents": lambda _, card, types, registered: registered.append(card) if types == 8 else None,
    "nvmlEventSetWait_v2": _wait,
    "nvmlEventSetFree": lambda _, registered: None,
}
FUNCTIONS = tuple(_ANSWERS)

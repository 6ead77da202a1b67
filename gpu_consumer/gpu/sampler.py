"""A session with our card, one sample of it, and the highest of the last samples."""

import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gpu_consumer.gpu.health import Condition
from gpu_consumer.gpu.identity import Handles, find, own_uuid
from gpu_consumer.gpu.nvml import CardLost, Nvml, NvmlUnavailable

# nvml.h
_EVENT_XID = 0x8
_EVERY_INSTANCE = 0xFFFFFFFF
_UNCORRECTED, _SINCE_DRIVER_LOAD = 1, 0
_CLOCKS = {"sm": 1, "memory": 2}
_DIE = 0
_THROTTLES = {
    0x04: "power_cap",
    0x08: "hardware",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
}
_EVENTS_MAX = 64  # read at once: a card in agony must not keep the sampler from sampling


@dataclass(frozen=True, slots=True)
class Sample:
    """A field is None, or not in its mapping, where the card does not tell or tells what cannot be.

    Of a MIG slice, memory is the slice's and the rest the whole card's; utilisation of a slice is not told.
    """

    utilisation_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_hertz: Mapping[str, float] = field(default_factory=dict)
    throttles: Mapping[str, bool] = field(default_factory=dict)
    condition: Condition = field(default_factory=Condition)


class Session:
    """NVML opened, and our card found in it. One thread at a time; every call may block."""

    def __init__(self, nvml: Nvml, handles: Handles) -> None:
        self.handles = handles
        self.product = str(nvml.ask("nvmlDeviceGetName", handles.card) or "")
        self.driver = str(nvml.ask("nvmlSystemGetDriverVersion") or "")
        self._nvml = nvml
        self._events = nvml.ask("nvmlEventSetCreate")
        if self._events is not None:
            nvml.ask("nvmlDeviceRegisterEvents", handles.card, _EVENT_XID, self._events)

    @classmethod
    def open(cls, device: str, environment: Mapping[str, str], engines: str = "") -> Self | None:
        """With `device` (a UUID or a PCI id), else what `environment` makes CUDA's device 0, else the UUID that an
        engine says; None: not known, or not listed.

        Raises CardLost, NvmlUnavailable.
        """
        nvml = Nvml.open()
        try:
            wanted = device or own_uuid(nvml, environment) or engines
            handles = find(nvml, wanted) if wanted else None
            session = cls(nvml, handles) if handles else None
        except BaseException:
            nvml.close()
            raise
        if session is None:
            nvml.close()
        return session

    def close(self) -> None:
        if self._events is not None:
            with contextlib.suppress(CardLost, NvmlUnavailable):
                self._nvml.ask("nvmlEventSetFree", self._events)
        self._nvml.close()

    def xids(self) -> list[int]:
        """Those of our card, or slice, since the last call. Raises CardLost, NvmlUnavailable."""
        found = []
        for _ in range(_EVENTS_MAX if self._events is not None else 0):
            event = self._nvml.ask("nvmlEventSetWait_v2", self._events, 0)
            if event is None:
                break
            if event.eventType == _EVENT_XID and self._ours(event):
                found.append(int(event.eventData))
        return found

    def sample(self) -> Sample:
        """Raises CardLost, NvmlUnavailable."""
        ask, card = self._nvml.ask, self.handles.card
        used, total = _memory(ask("nvmlDeviceGetMemoryInfo", self.handles.slice or card))
        busy = ask("nvmlDeviceGetUtilizationRates", card) if self.handles.slice is None else None
        return Sample(
            utilisation_ratio=_scaled(getattr(busy, "gpu", None), 100, 1),
            memory_used_bytes=used,
            memory_total_bytes=total,
            power_watts=_scaled(ask("nvmlDeviceGetPowerUsage", card), 1000, 10_000),
            temperature_celsius=_scaled(ask("nvmlDeviceGetTemperature", card, _DIE), 1, 200),
            clock_hertz={
                name: hertz
                for name, clock in _CLOCKS.items()
                if (hertz := _scaled(ask("nvmlDeviceGetClockInfo", card, clock), 1e-6, 1e11)) is not None
            },
            throttles=self._throttles(),
            condition=self._condition(),
        )

    def _throttles(self) -> dict[str, bool]:
        reasons = self._nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", self.handles.card)
        if reasons is None:  # as it was called before driver 535
            reasons = self._nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", self.handles.card)
        if not isinstance(reasons, int):
            return {}
        return {name: bool(reasons & bit) for bit, name in _THROTTLES.items()}

    def _condition(self) -> Condition:
        ask, card = self._nvml.ask, self.handles.card
        remapped = ask("nvmlDeviceGetRemappedRows", card)
        pending, failed = (bool(remapped[2]), bool(remapped[3])) if remapped else (None, None)
        errors = ask("nvmlDeviceGetTotalEccErrors", card, _UNCORRECTED, _SINCE_DRIVER_LOAD)
        retiring = ask("nvmlDeviceGetRetiredPagesPendingStatus", card)
        return Condition(
            ecc_uncorrected=errors if isinstance(errors, int) and 0 <= errors < 1 << 63 else None,
            remap_pending=pending,
            remap_failed=failed,
            retirement_pending=None if retiring is None else bool(retiring),
        )

    def _ours(self, event: Any) -> bool:
        own = self.handles.gpu_instance
        return own is None or event.gpuInstanceId in (own, _EVERY_INSTANCE)


class Peak:
    """The highest value of the last `seconds`. Reading changes nothing, so that any number of scrapers see it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._falling: deque[tuple[float, float]] = deque()  # no value is below a later one

    def add(self, now: float, value: float) -> None:
        while self._falling and self._falling[-1][1] <= value:
            self._falling.pop()
        self._falling.append((now, value))
        while self._falling[0][0] < now - self._seconds:
            self._falling.popleft()

    def at(self, now: float) -> float | None:
        return next((value for when, value in self._falling if when >= now - self._seconds), None)


def _memory(info: Any) -> tuple[float | None, float | None]:
    used, total = getattr(info, "used", None), getattr(info, "total", None)
    if not isinstance(used, int) or not isinstance(total, int) or not 0 <= used <= total < 1 << 50 or total == 0:
        return None, None
    return float(used), float(total)


def _scaled(value: Any, divisor: float, most: float) -> float | None:
    """`value` over `divisor` if that lies from 0 to `most`: NVML says 2^32-1 for what it does not know."""
    if not isinstance(value, int | float) or not 0 <= value / divisor <= most:
        return None
    return value / divisor

"""An engine's pulses as metrics."""

from gpu_consumer.engine.protocol import Pulse
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.spending import Spending
from schemas.uptime import State

_SAID = ("allocated", "reserved", "predicted", "free")  # of the device's memory, with each pulse


class PulseGauges:
    """What a pulse says holds until the next one. Times are seconds of one steady clock."""

    def __init__(self, metrics: GpuMetrics, spending: Spending) -> None:
        self._metrics = metrics
        self._spending = spending
        self._last: Pulse | None = None
        self._at = 0.0

    def take(self, pulse: Pulse, now: float) -> None:
        self._count_slots(now)
        self._spending.engine(_state(pulse))
        last, metrics = self._last, self._metrics
        if last is not None and (loaded := set(pulse.models) - set(last.models)):
            metrics.count("model_loads_total", len(loaded))
        before = last.steps if last is not None and last.steps <= pulse.steps else 0  # an engine of its own counts anew
        metrics.count("steps_total", pulse.steps - before)
        if pulse.step_seconds is not None:
            metrics.set("step_seconds", pulse.step_seconds)
        memory = pulse.memory
        for kind in _SAID:
            metrics.set("memory_bytes", getattr(memory, kind), kind=kind)
        fragmented = 1 - memory.allocated / memory.reserved if memory.reserved else 0.0
        metrics.set("memory_fragmentation_ratio", max(0.0, fragmented))
        self._last, self._at = pulse, now

    def end(self, now: float) -> None:
        """The engine is gone: what it said last does not hold until the next one speaks, which may be minutes."""
        self._count_slots(now)
        self._spending.engine("loading")
        for name in ("step_seconds", "memory_fragmentation_ratio"):
            self._metrics.forget(name)
        for kind in _SAID:
            self._metrics.forget("memory_bytes", kind=kind)
        self._last = None

    def _count_slots(self, now: float) -> None:
        if self._last is None:
            return
        seconds, slots, fill = max(0.0, now - self._at), self._last.slots, self._last.fill
        self._metrics.count("slot_seconds_total", seconds * fill, state="filled")
        self._metrics.count("slot_seconds_total", seconds * max(0, slots - fill), state="empty")


def _state(pulse: Pulse) -> State:
    if pulse.fill:
        return "busy"
    return "loading" if pulse.doing == "load" else "idle"

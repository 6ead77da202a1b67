"""The engine's signs of life. They come from the step loop itself, so an engine that hangs gives none."""

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.protocol import Event, MemoryReading, Pulse
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions.base import Session

PULSE_SECONDS = 0.25
_STEPS_REMEMBERED = 32


class Heart:
    def __init__(
        self,
        say: Callable[[Sequence[Event]], None],
        device: Device,
        residence: Residence,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._device = device
        self._residence = residence
        self._clock = clock
        self._started = False
        self._last: tuple[object, ...] = ()
        self._said_at = float("-inf")
        self._step_seconds: deque[float] = deque(maxlen=_STEPS_REMEMBERED)
        self.steps = 0

    def start(self) -> None:
        """Until here no sign of life is given: an engine that is not ready is given all the time of its start."""
        self._started = True

    def stepped(self, seconds: float) -> None:
        self.steps += 1
        self._step_seconds.append(seconds)

    def beat(self, session: Session | None, *, loading: bool = False) -> None:
        """At once if something else is done than before, or in other slots; else four times a second."""
        running = None if session is None or session.idle else session
        doing: Literal["nothing", "load", "step"] = "step" if running else "nothing"
        if loading:
            doing = "load"
        kind, slots = (running.kind, running.slots) if running else (None, 0)
        now = self._clock()
        if not self._started or ((doing, kind, slots) == self._last and now - self._said_at < PULSE_SECONDS):
            return
        self._last, self._said_at = (doing, kind, slots), now
        pulse = Pulse(
            doing=doing,
            kind=kind,
            slots=slots,
            fill=running.fill if running else 0,
            steps=self.steps,
            step_seconds=statistics.median(self._step_seconds) if self._step_seconds else None,
            models=self._residence.keys(),
            memory=self._memory(running),
        )
        self._say([pulse])

    def _memory(self, running: Session | None) -> MemoryReading:
        now = self._device.reading()
        return MemoryReading(now.allocated, now.reserved, self._residence.weights_bytes + _expected(running), now.free)


def _expected(running: Session | None) -> int:
    """Of a full batch of what runs: as measured, or as its configuration says before the first."""
    if running is None:
        return 0
    return running.peak_bytes or running.slots * running.config.price.vram_bytes

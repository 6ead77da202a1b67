"""The engine's signs of life. They come from the step loop itself, so an engine that hangs gives none."""

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.protocol import Event, MemoryReading, Pulse
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions.base import Session

PULSE_SECONDS = 0.25
_STEPS_REMEMBERED = 32

_Work: TypeAlias = tuple[str, int, str]  # kind, slots, stage


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
        self._work: _Work | None = None
        self._since = 0.0
        self._longest = 0.0  # of what has begun, without a sign of life
        self._took: dict[_Work, float] = {}  # the last time
        self._promised = 0.0
        self.steps = 0

    def start(self) -> None:
        """Until here no sign of life is given: an engine that is not ready is given all the time of its start."""
        self._started = True

    def begin(self, session: Session, stage: str) -> None:
        """The device is given `stage` of a full batch, and no sign of life comes before it has done it.

        What was never done here may take as long as a load: kernels are read, or made.
        """
        self._end()
        self._work = session.kind, session.slots, stage
        self._longest = 0.0
        self.beat(session)

    def stepped(self, seconds: float) -> None:
        """A step is made; what has begun may go on with the next one."""
        self._end()
        self.steps += 1
        self._step_seconds.append(seconds)

    def rest(self) -> None:
        """The device has done all it was given."""
        self._end()
        self._work = None

    def failed(self) -> None:
        """It did not do what it was given: how long that took says nothing."""
        self._work = None

    def beat(self, session: Session | None, *, loading: bool = False) -> None:
        """At once if something else is done than before, or in other slots, or takes longer; else four a second."""
        running = None if session is None or session.idle else session
        doing: Literal["nothing", "load", "step"] = "step" if running else "nothing"
        expected = self._took.get(self._work) if self._work is not None else 0.0
        if loading or expected is None:
            doing = "load"
        kind, slots = (running.kind, running.slots) if running else (None, 0)
        now = self._clock()
        changed = (doing, kind, slots) != self._last or (expected or 0.0) > 2 * self._promised
        if not self._started or (not changed and now - self._said_at < PULSE_SECONDS):
            return
        self._last, self._said_at = (doing, kind, slots), now
        pulse = Pulse(
            doing=doing,
            kind=kind,
            slots=slots,
            fill=running.fill if running else 0,
            steps=self.steps,
            step_seconds=statistics.median(self._step_seconds) if self._step_seconds else None,
            silent_seconds=expected or 0.0,
            models=self._residence.keys(),
            memory=self._memory(running),
            made=running.made if running else {},
        )
        self._promised = max(pulse.step_seconds or 0.0, pulse.silent_seconds)
        self._say([pulse])

    def _end(self) -> None:
        now = self._clock()
        if self._work is not None:
            self._took[self._work] = self._longest = max(self._longest, now - self._since)
        self._since = now

    def _memory(self, running: Session | None) -> MemoryReading:
        now = self._device.reading()
        return MemoryReading(now.allocated, now.reserved, self._residence.own_bytes + _expected(running), now.free)


def _expected(running: Session | None) -> int:
    """Of a full batch of what runs: as measured, or as its configuration says before the first."""
    if running is None:
        return 0
    return running.peak_bytes or running.slots * running.config.price.vram_bytes

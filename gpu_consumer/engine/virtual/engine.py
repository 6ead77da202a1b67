"""VirtualEngine: takes the time that a device would take, and makes no pictures worth looking at. For benchmarks."""

import asyncio
import time
from collections.abc import Collection, Sequence

from gpu_consumer.engine.protocol import NOT_STARTED, Batch, DeviceInfo, Ended, EngineDied, Event, Joined, Pulse, Ready
from gpu_consumer.engine.virtual.clock import VirtualClock
from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.engine.virtual.loop import VirtualLoop

_PULSE_SECONDS = 0.25


class VirtualEngine:
    """An Engine in this very process, without torch: the step loop on a virtual device, in scaled real time.

    `scale`: real seconds for a second of the device. What it says of seconds (Share, Pulse) is the device's own time.
    """

    def __init__(self, device: VirtualDevice | None = None, *, scale: float = 0.01) -> None:
        self._device = device or VirtualDevice()
        self._scale = scale
        self._loop = VirtualLoop(self._device)
        self._said: list[Event] = []
        self._changed = asyncio.Event()  # something was said, or the engine is gone
        self._work = asyncio.Event()  # something was sent
        self._task: asyncio.Task[None] | None = None
        self._death = NOT_STARTED
        self._joined: set[str] = set()  # and not ended, as far as was said
        self._pulse = Pulse("nothing")
        self._pulse_due = 0.0
        self.clock = VirtualClock(scale)
        self.starts = 0

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    async def start(self) -> Ready:
        await self.stop()
        self.starts += 1
        self._loop = VirtualLoop(self._device)
        self._joined = set()
        self._death = "the engine ended"
        self._pulse = self._loop.pulse()
        self._said = [self._pulse]
        self._changed, self._work = asyncio.Event(), asyncio.Event()  # of the loop that runs now
        self._task = asyncio.create_task(self._run(), name="virtual engine")
        self._task.add_done_callback(lambda _: self._changed.set())
        return Ready(DeviceInfo("virtual", "virtual-0", self._device.memory_bytes), {})

    async def submit(self, batch: Batch) -> None:
        self._refuse_if_dead()
        self._loop.send(batch)
        self._work.set()

    async def leave(self, keys: Collection[str]) -> None:
        self._refuse_if_dead()
        self._loop.leave(keys)
        self._work.set()

    async def events(self) -> Sequence[Event]:
        while not self._said:
            self._refuse_if_dead()
            self._changed.clear()
            await self._changed.wait()
        said, self._said = self._said, []
        return said

    async def stop(self) -> None:
        task = self._task
        self.die()
        self._death = NOT_STARTED
        self._said = []
        if task is not None:
            await asyncio.wait([task])

    def die(self) -> None:
        """As if the process had been killed: what is in it is lost, and start makes a new one."""
        if self._task is None:
            return
        self._task.cancel()
        self._task = None
        self._death = "the engine was killed"
        self._changed.set()

    def _refuse_if_dead(self) -> None:
        if not self.alive:
            raise EngineDied(self._death, joined=self._joined)

    async def _run(self) -> None:
        while True:
            turn = self._loop.turn()
            if turn is None:
                self._look()
                self._work.clear()
                await self._work.wait()
                continue
            self._say(turn.started)
            self._look()
            if turn.seconds:
                end = self.clock.begin(turn.seconds, time.monotonic())
                await asyncio.sleep(max(0.0, end - time.monotonic()))
                self.clock.woke(time.monotonic())
            self._say(turn.ended)

    def _say(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Joined):
                self._joined.update(event.keys)
            elif isinstance(event, Ended):
                self._joined.discard(event.key)
        if events:
            self._said += events
            self._changed.set()

    def _look(self) -> None:
        """Say what it does, at once where that changed, else four times a second."""
        pulse = self._loop.pulse()
        seen, new = ((each.doing, each.kind, each.slots, each.models) for each in (self._pulse, pulse))
        if seen != new or (pulse.doing != "nothing" and time.monotonic() >= self._pulse_due):
            self._pulse = pulse
            self._pulse_due = time.monotonic() + _PULSE_SECONDS
            self._say([pulse])

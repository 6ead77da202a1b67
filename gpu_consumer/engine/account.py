"""What a batch cost: seconds a stage and peak memory, over all its tries."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_consumer.engine.device import Device, Usage


@dataclass(slots=True)
class Account:
    """`peak_bytes`: of all tries. `fitted`: bucket -> the highest peak of the tries that did not run out of memory."""

    device: Device
    bucket: int
    timings: dict[str, float] = field(default_factory=dict)
    peak_bytes: int = 0
    fitted: dict[int, int] = field(default_factory=dict)
    _running: tuple[str, float] | None = None

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to `name`, a failed block's too; waits for the device, whose work is lazy."""
        with self.host_stage(name):
            yield
            self.device.synchronise()

    @contextlib.contextmanager
    def host_stage(self, name: str) -> Iterator[None]:
        """The same without waiting: of the host, which runs a little ahead of the device. Right in sum."""
        self._running = (name, time.monotonic())
        try:
            yield
        finally:
            self.lap()
            self._running = None

    def lap(self) -> None:
        """Book what has passed of the stage that runs, if one does."""
        if self._running is not None:
            name, since = self._running
            now = time.monotonic()
            self.add(name, now - since)
            self._running = (name, now)

    @contextlib.contextmanager
    def memory(self, bytes_: int) -> Iterator[Usage]:
        """Reserve `bytes_` for the block, and keep the highest peak. Raises torch.OutOfMemoryError."""
        usage = Usage()
        try:
            with self.device.reserve(bytes_) as usage:
                yield usage
        finally:
            self.peak_bytes = max(self.peak_bytes, usage.peak_bytes)

    def add(self, name: str, seconds: float) -> None:
        self.timings[name] = self.timings.get(name, 0.0) + seconds

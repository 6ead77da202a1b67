"""What every peer's server does with a batch: run it to its end on the virtual device, in scaled real time.

The server is told by its environment: KILN_PORT, KILN_SCALE (real seconds a second of the device), KILN_SIZE (most in a
batch) and KILN_WAIT (real seconds).
"""

import os
import threading
import time
from collections.abc import Sequence

from gpu_consumer.engine.virtual.clock import VirtualClock
from gpu_consumer.engine.virtual.device import VirtualDevice

PORT = int(os.environ.get("KILN_PORT", "0"))
SIZE = int(os.environ.get("KILN_SIZE", "1"))
WAIT = float(os.environ.get("KILN_WAIT", "0"))


class Painter:
    """One device, one batch at a time. A picture of no steps takes no time, so that a request alone can be timed."""

    def __init__(self) -> None:
        self._device = VirtualDevice()
        self._clock = VirtualClock(float(os.environ.get("KILN_SCALE", "0.01")))
        self._lock = threading.Lock()

    def paint(self, steps: Sequence[int]) -> list[int]:
        """Blocks while the device works. As long for each as for the longest: padded to it."""
        real = [each for each in steps if each]
        if real:
            seconds = max(real) * self._device.step_seconds(len(real))
            seconds += self._device.text_seconds(len(real)) + self._device.decode_seconds(len(real))
            with self._lock:
                end = self._clock.begin(seconds, time.monotonic())
                time.sleep(max(0.0, end - time.monotonic()))
        return list(steps)

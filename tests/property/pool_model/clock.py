"""Time that passes only while nothing can be done."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

from gpu_consumer.clock import Clock
from tests.unit.gpu_consumer.work import EPOCH


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time passes only while nothing can be done, and then at once."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jumps(self._jump))

    def time(self) -> float:
        return self._now

    def _jump(self, seconds: float) -> None:
        self._now += seconds


class _Jumps(selectors.SelectSelector):
    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing will ever happen again"
        self._jump(max(0.0, timeout))
        return super().select(0)


class LoopClock(Clock):
    def steady(self) -> float:
        return 1000.0 + asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return int(1000 * (EPOCH.timestamp() + asyncio.get_running_loop().time()))

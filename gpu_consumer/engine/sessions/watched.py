"""A device that tells of each piece of work that it is given."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from gpu_consumer.engine.device import Device

T = TypeVar("T")


def watched(device: Device, begins: Callable[[str], None], failed: Callable[[], None]) -> Device:
    """`device`, but `begins` is called with each stage before its work, and `failed` where the work raises."""
    return cast(Device, _Watched(device, begins, failed))


class _Watched:
    def __init__(self, device: Device, begins: Callable[[str], None], failed: Callable[[], None]) -> None:
        self._device = device
        self._begins = begins
        self._failed = failed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def run(self, stage: str, keys: Sequence[str], work: Callable[[], T]) -> T:
        self._begins(stage)
        try:
            return self._device.run(stage, keys, work)
        except BaseException:
            self._failed()
            raise

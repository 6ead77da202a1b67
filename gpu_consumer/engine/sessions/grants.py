"""How many of a kind may run at once: its bucket, or less where that is predicted, or was found, not to fit."""

from collections.abc import Iterable

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.protocol import Peak
from gpu_consumer.engine.residence import Residence
from gpu_consumer.memory import SHARE, PeakMemory, neighbour_took
from schemas.config import GenerationConfig


class Grants:
    """Asks what is free right before a batch, and drops models that are not in use where that makes room for it."""

    def __init__(self, device: Device, residence: Residence) -> None:
        self._device = device
        self._residence = residence
        self._memory = PeakMemory()

    def slots(self, config: GenerationConfig) -> int:
        """At least 1: what does not even fit alone is to be found out and said of the item."""
        preset = config.price.vram_bytes
        self._residence.make_room(int(self._memory.predict(config.kind, config.bucket, preset) / SHARE))
        free = self._device.free_bytes()
        return max(1, self._memory.granted(config.kind, config.bucket, preset, free))

    def predicted(self, config: GenerationConfig, slots: int) -> int:
        """Bytes that a batch of so many is expected to take beside the weights."""
        return self._memory.predict(config.kind, slots, config.price.vram_bytes)

    def observe(self, kind: str, slots: int, bytes_: int) -> None:
        """So much it took, as measured here."""
        self._memory.observe(kind, slots, bytes_)

    def learn(self, peaks: Iterable[Peak]) -> None:
        """So much it took elsewhere."""
        for peak in peaks:
            self._memory.learn(peak.kind, peak.bucket, peak.bytes)

    def out_of_memory(self, kind: str, slots: int) -> None:
        """So many do not fit, and nobody else took the memory: no batch of this kind gets so many again."""
        self._memory.out_of_memory(kind, slots)

    def free_bytes(self) -> int:
        return self._device.free_bytes()

    def neighbour_took(self, free_before: int) -> bool:
        """Whether much less is free now than was before a batch that ran out of memory and is gone."""
        return neighbour_took(free_before, self._device.free_bytes())

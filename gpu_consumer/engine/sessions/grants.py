"""How many of a kind may run at once: its bucket, or less where that is predicted, or was found, not to fit."""

from collections.abc import Iterable

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.protocol import Peak
from gpu_consumer.engine.residence import Residence
from gpu_consumer.memory import SHARE, PeakMemory, neighbour_took
from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig


class Grants:
    """Asks what is free right before a batch, and drops models that are not in use where that makes room for it."""

    def __init__(self, device: Device, residence: Residence) -> None:
        self._device = device
        self._residence = residence
        self._memory = PeakMemory()
        self._most_free = 0  # that was ever seen, as if no model were loaded
        self._look()

    def slots(self, config: GenerationConfig) -> int:
        """At least 1: what does not even fit alone is to be found out and said of the item.

        Raises ModelUnavailable where a neighbour has taken the memory of even one.
        """
        preset = config.price.vram_bytes
        self._residence.make_room(int(self._memory.predict(config.kind, config.bucket, preset) / SHARE))
        free = self._look()
        granted = self._memory.granted(config.kind, config.bucket, preset, free)
        need, usual = self._memory.most(config.kind, 1, preset), self._most_free - self._residence.weights_bytes
        if not granted and need <= SHARE * usual and neighbour_took(usual, free):
            raise ModelUnavailable(
                f"a picture of {config.label} takes {need:,} bytes beside its weights, and others on the device leave "
                f"{free:,} of {usual:,}; it waits until they give some back"
            )
        return max(1, granted)

    def fitting(self, config: GenerationConfig) -> int:
        """As many as `slots`, of what is free as it is."""
        return max(1, self._memory.granted(config.kind, config.bucket, config.price.vram_bytes, self._look()))

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
        return self._look()

    def neighbour_took(self, free_before: int) -> bool:
        """Whether much less is free now than was before a batch that ran out of memory and is gone."""
        return neighbour_took(free_before, self._device.free_bytes())

    def _look(self) -> int:
        free = self._device.free_bytes()
        self._most_free = max(self._most_free, free + self._residence.weights_bytes)
        return free

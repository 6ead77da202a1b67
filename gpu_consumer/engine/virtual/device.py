"""A device that is not there: how long its stages take, and how much memory it has. Plain numbers, no imports of ours.

All seconds are the device's own. Whoever runs it in real time may scale them.
"""

from collections import OrderedDict
from dataclasses import dataclass

# Seconds of one step by batch size, measured in public on an H200: a transformer that draws 512 x 512 pixels.
H200_STEPS = ((1, 0.167), (2, 0.183), (3, 0.186), (4, 0.240), (8, 0.425), (16, 0.832))
MEMORY_SHARE = 0.9  # of what is free, at most, for a batch


@dataclass(frozen=True, slots=True)
class VirtualDevice:
    """What a stage costs: a step by a table of (batch, seconds); text and decode by (seconds a call, seconds each).

    The defaults of the two stages are estimates, not measurements: a T5-XXL over 512 tokens is 4.8 TFLOP, a decoder at
    512 pixels 2.5 TFLOP of convolutions, so 0.01 s and 0.02 s each on such a card; and a call launches some hundred
    kernels, whatever the batch.
    """

    steps: tuple[tuple[int, float], ...] = H200_STEPS
    text: tuple[float, float] = (0.03, 0.01)
    decode: tuple[float, float] = (0.02, 0.02)
    memory_bytes: int = 141_000_000_000
    model_bytes: int = 34_000_000_000
    load_bytes_per_second: float = 20e9

    def step_seconds(self, batch: int) -> float:
        """Linear between the table's entries, and beyond the last as between the last two."""
        assert batch >= 1
        lower = self.steps[0]
        if batch <= lower[0]:
            return lower[1]
        for upper in self.steps[1:]:
            slope = (upper[1] - lower[1]) / (upper[0] - lower[0])
            if batch <= upper[0]:
                break
            start, lower = lower, upper
        else:
            lower = start
        return lower[1] + slope * (batch - lower[0])

    def text_seconds(self, batch: int) -> float:
        return self.text[0] + self.text[1] * batch

    def decode_seconds(self, batch: int) -> float:
        return self.decode[0] + self.decode[1] * batch

    def full_batch_seconds(self, bucket: int, mean_steps: float) -> float:
        """Of the device for one picture, if no slot of a bucket is ever empty, in any stage: nothing can be faster."""
        stages = self.text_seconds(bucket) + self.decode_seconds(bucket)
        return (mean_steps * self.step_seconds(bucket) + stages) / bucket


class VirtualMemory:
    """The ledger of one device: which models are on it, the one used last at the end, and what a batch may add."""

    def __init__(self, device: VirtualDevice) -> None:
        self._device = device
        self._models: OrderedDict[str, int] = OrderedDict()
        self.batch_bytes = 0

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self._models)

    @property
    def used(self) -> int:
        return sum(self._models.values()) + self.batch_bytes

    @property
    def free(self) -> int:
        return self._device.memory_bytes - self.used

    def load(self, model: str) -> float:
        """Seconds it takes, 0 if it is there; those not used for longest leave for it. Raises MemoryError."""
        if model in self._models:
            self._models.move_to_end(model)
            return 0.0
        need = self._device.model_bytes
        if need > self._device.memory_bytes:
            raise MemoryError(f"a model of {need} bytes does not fit a device of {self._device.memory_bytes}")
        while self.free < need:
            self._models.popitem(last=False)
        self._models[model] = need
        return need / self._device.load_bytes_per_second

    def slots(self, bucket: int, item_bytes: int) -> int:
        """The bucket, or the largest of its halves that fits beside the models; 0: not even one does."""
        room = int(self.free * MEMORY_SHARE)
        while bucket and bucket * item_bytes > room:
            bucket //= 2
        return bucket

"""What a padded batch takes beside the weights, measured, and as predicted by a memory that never saw its bucket."""

from collections.abc import Mapping

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.memory import PeakMemory
from gpu_consumer.models.loading import Loaded
from tests.benchmarks.gpu.joins import drive, request
from tests.benchmarks.memory.live import LiveTensors

_KIND = "measured"
_STEPS = 2


def peaks(loaded: Loaded, device: Device, size: int, buckets: tuple[int, ...]) -> dict[int, int]:
    """Bucket -> bytes, from the first text to the last picture. On CUDA as the engine learns them, from the allocator;
    on the CPU, whose memory is a ledger of what is expected, from live tensors.
    """
    return {bucket: _peak(loaded, device, Shape(size, size, bucket)) for bucket in buckets}


def predicted(measured: Mapping[int, int]) -> dict[int, int]:
    """Each bucket by the rest of them; a memory that saw two or more, and no price of a configuration, decides."""
    assert len(measured) >= 3
    return {bucket: _taught(measured, bucket).predict(_KIND, bucket, 0) for bucket in measured}


def _taught(measured: Mapping[int, int], hidden: int) -> PeakMemory:
    memory = PeakMemory()
    for bucket, bytes_ in measured.items():
        if bucket != hidden:
            memory.observe(_KIND, bucket, bytes_)
    return memory


def _peak(loaded: Loaded, device: Device, shape: Shape) -> int:
    device.empty_cache()
    if device.name == "cuda":
        engine = Stepwise(device, loaded, shape)
        _fill(engine)
        return engine.peak_bytes - loaded.weights_bytes
    with LiveTensors() as live:
        _fill(Stepwise(device, loaded, shape))
    bytes_: int = live.peak
    return bytes_


def _fill(engine: Stepwise) -> None:
    drive(engine, [request(_STEPS) for _ in range(engine.shape.bucket)], engine.shape.bucket)

"""Requests that join and leave at any step, beside full batches that start and end together; and their bytes."""

import hashlib
import statistics
import time
from collections.abc import Sequence
from functools import partial

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Made, Request, Shape
from gpu_consumer.models.loading import Loaded
from tests.benchmarks.engine import pictures

_ROUNDS = 3
_BATCHES = 3
request = partial(pictures.request, "ddim")  # of a prompt that is new, so that no text is known yet


def lengths(bucket: int, steps: int) -> list[int]:
    """Of three batches' worth of requests, in the order in which they join, one whenever a slot is free.

    A slot gets a short one, a middle one and a long one, in one of three orders: so slots become free at six different
    steps, none is ever empty, and all end at the step at which three full batches of `steps` would.
    """
    short, middle, long = steps - steps // 4, steps, steps + steps // 4
    first = [(short, middle, long)[slot % 3] for slot in range(bucket)]
    shorts, middles, longs = (first.count(each) for each in (short, middle, long))
    second = [long] * shorts + [short] * middles + [middle] * longs
    return [*first, *second, *[long] * middles, *[middle] * shorts, *[short] * longs]


def throughput(
    loaded: Loaded, device: Device, shape: Shape, steps: int, *, decode_buckets: Sequence[int]
) -> dict[int, float]:
    """By how many are decoded at once: pictures a second of requests that join, over those of static full batches.

    Both have the same pictures and the same steps to make. Batches are decoded whole, as they come.
    """
    arms = {bucket: Stepwise(device, loaded, shape, decode_bucket=bucket) for bucket in decode_buckets}
    static = Stepwise(device, loaded, shape)
    ratios: dict[int, list[float]] = {bucket: [] for bucket in decode_buckets}
    for engine in (static, *arms.values()):
        drive(engine, [request(2) for _ in range(shape.bucket)], shape.bucket)
    for _ in range(_ROUNDS):
        together = _seconds(device, static, [steps] * (_BATCHES * shape.bucket), shape.bucket)
        for bucket, engine in arms.items():
            ratios[bucket].append(together / _seconds(device, engine, lengths(shape.bucket, steps), 1))
    return {bucket: statistics.median(each) for bucket, each in ratios.items()}


def same_bytes(loaded: Loaded, device: Device, shape: Shape, steps: int) -> bool:
    """One request alone, and again joining last among neighbours of other lengths: the same, bit for bit."""
    asked = request(steps)
    neighbours = [request(steps + 1 + n % 3) for n in range(shape.bucket - 1)]
    alone, crowded = Stepwise(device, loaded, shape), Stepwise(device, loaded, shape)
    first = drive(alone, [asked], shape.bucket)
    crowded.join(neighbours)
    crowded.step()
    second = drive(crowded, [asked], shape.bucket)
    return asked.key in first and first[asked.key] == second.get(asked.key)


def drive(engine: Stepwise, requests: Sequence[Request], together: int) -> dict[str, str]:
    """Run until all have ended, joining where `together` slots are free.

    Key -> SHA-256 of latents and pixels, of those that have a picture.
    """
    waiting = list(requests)
    digests = {}
    while waiting or not engine.idle:
        if waiting and engine.free_slots >= min(together, len(waiting)):
            joining, waiting = waiting[: engine.free_slots], waiting[engine.free_slots :]
            engine.join(joining)
            engine.hint(waiting[: engine.shape.bucket])
        for one in engine.step():
            if isinstance(one, Made):
                latents = one.latents.cpu().contiguous().numpy().tobytes()
                digests[one.request.key] = hashlib.sha256(latents + one.pixels.tobytes()).hexdigest()
    return digests


def _seconds(device: Device, engine: Stepwise, steps: Sequence[int], together: int) -> float:
    requests = [request(each) for each in steps]
    device.synchronise()
    started = time.perf_counter()
    made = drive(engine, requests, together)
    device.synchronise()
    seconds = time.perf_counter() - started
    assert len(made) == len(requests), "random weights gave something that is no picture"
    return seconds

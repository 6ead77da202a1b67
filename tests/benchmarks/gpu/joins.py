"""Requests that join and leave at any step, beside full batches that start and end together; and their bytes."""

import hashlib
import time
from collections.abc import Callable, Sequence
from itertools import count

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Made, Request, Shape
from gpu_consumer.models.loading import Loaded

_ROUNDS = 3
_BATCHES = 3
_number = count()


def throughput(loaded: Loaded, device: Device, shape: Shape, steps: int) -> float:
    """Pictures a second of requests of three lengths that join one by one, over those of static full batches."""
    engine = Stepwise(device, loaded, shape)
    static = [_request(steps) for _ in range(_BATCHES * shape.bucket)]
    spread = (steps - steps // 4, steps, steps + steps // 4)
    joining = [_request(spread[n % 3]) for n in range(_BATCHES * shape.bucket)]
    drive(engine, static[: shape.bucket], shape.bucket)
    ratios = []
    for turn in range(_ROUNDS):
        runs: list[tuple[str, Callable[[], object]]] = [
            ("static", lambda: drive(engine, _again(static), shape.bucket)),
            ("joining", lambda: drive(engine, _again(joining), 1)),
        ]
        seconds = {}
        for name, run in runs if turn % 2 else reversed(runs):
            started = time.perf_counter()
            run()
            device.synchronise()
            seconds[name] = time.perf_counter() - started
        work = sum(one.steps for one in joining) / sum(one.steps for one in static)
        ratios.append(work * seconds["static"] / seconds["joining"])
    return sorted(ratios)[_ROUNDS // 2]


def same_bytes(loaded: Loaded, device: Device, shape: Shape, steps: int) -> bool:
    """One request alone, and again joining last among neighbours of other lengths: the same latents, bit for bit."""
    asked = _request(steps)
    neighbours = [_request(steps + 1 + n % 3) for n in range(shape.bucket - 1)]
    alone, crowded = Stepwise(device, loaded, shape), Stepwise(device, loaded, shape)
    first = drive(alone, [asked], shape.bucket)
    crowded.join(neighbours)
    crowded.step()
    second = drive(crowded, [asked], shape.bucket)
    return asked.key in first and first[asked.key] == second.get(asked.key)


def drive(engine: Stepwise, requests: Sequence[Request], together: int) -> dict[str, str]:
    """Run until all have ended, joining where `together` slots are free; key -> SHA-256 of latents that were made."""
    waiting = sorted(requests, key=lambda one: -one.steps)  # the longest first, as any who can choose would
    latents = {}
    while waiting or not engine.idle:
        if waiting and engine.free_slots >= min(together, len(waiting)):
            joining, waiting = waiting[: engine.free_slots], waiting[engine.free_slots :]
            engine.join(joining)
            engine.hint(waiting[: engine.shape.bucket])
        for one in engine.step():
            if isinstance(one, Made):
                latents[one.request.key] = hashlib.sha256(one.latents.cpu().contiguous().numpy().tobytes()).hexdigest()
    return latents


def _request(steps: int) -> Request:
    number = next(_number)
    return Request(Item(str(number), f"a red circle, number {number}", "", number), "ddim", steps, 5.0)


def _again(requests: Sequence[Request]) -> list[Request]:
    """The same work under new keys and prompts, so that no text is known yet."""
    return [_request(one.steps) for one in requests]

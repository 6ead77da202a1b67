"""Our own batching on a virtual clock: the product's scheduler in front, and the virtual engine's loop behind it."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_consumer.engine.protocol import Ended, Picture
from gpu_consumer.engine.virtual.loop import VirtualLoop
from schemas.config import GenerationConfig
from tests.benchmarks.batching.front import Front
from tests.benchmarks.batching.workload import STEP_COUNTS, Job

AHEAD = 4  # sent before they have a slot: none of a free slot's time is lost, and their texts are encoded in full runs


def configs(bucket: int) -> dict[int, GenerationConfig]:
    """One model and shape, five step counts."""
    return {
        steps: GenerationConfig.model_validate(
            {
                "name": f"steps-{steps}", "version": 1, "family": "sd3", "steps": steps, "guidance_scale": 4.0,
                "scheduler": "flow-match-euler", "width": 512, "height": 512, "bucket": bucket,
                "model": {"name": "transformer", "digest": "sha256:" + "0" * 64},
                "price": {"gpu_seconds": steps * 0.2, "vram_bytes": 1_000_000_000},
            }
        )
        for steps in STEP_COUNTS
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """When each job had its picture, in the order of the jobs; and the steps of all pictures made while others waited.

    `full_seconds`: from the start until nobody waited for a slot any more, for the last time.
    """

    finished: list[float]
    full_seconds: float
    full_steps: int


def run(jobs: Sequence[Job], bucket: int, loop: VirtualLoop) -> Run:
    """Turn after turn of the engine, each with whatever arrived before it began. All else takes no time."""
    front = Front(configs(bucket), ahead=AHEAD)
    finished = [0.0] * len(jobs)
    now, coming = 0.0, 0
    full_seconds, full_steps, steps, ended = 0.0, 0, 0, 0
    while ended < len(jobs):
        while coming < len(jobs) and jobs[coming].arrival <= now:
            front.add(jobs[coming], now)
            coming += 1
        if front.waiting:
            for batch in front.sends(now, loop.pulse()):
                loop.send(batch)
        turn = loop.turn()
        if turn is None:
            now = jobs[coming].arrival
            continue
        now += turn.seconds
        for event in (*turn.started, *turn.ended):
            front.hear(event)
            if isinstance(event, Ended):
                assert isinstance(event.outcome, Picture), event
                finished[int(event.key)] = now
                steps += jobs[int(event.key)].steps
                ended += 1
        if front.waiting:
            full_seconds, full_steps = now, steps
    front.check()
    return Run(finished, full_seconds, full_steps)

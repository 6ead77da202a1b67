"""The same pictures by both: one call of the stock pipeline, and the stepwise engine run to its end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch

from gpu_consumer.engine.protocol import Item
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Request, Shape
from gpu_consumer.models.families import fresh_scheduler
from gpu_consumer.models.loading import Loaded
from tests.stepwise import made, stepwise

_number = count()


@dataclass(frozen=True, slots=True)
class Drawer:
    """A model at one shape. Pictures are uint8: (height, width, 3), of videos (frames, height, width, 3)."""

    model: Loaded
    shape: Shape

    def engine(self) -> Stepwise:
        return stepwise(self.model, self.shape)

    def stock(self, batch: Sequence[Request]) -> list[Any]:
        """Of requests that agree on scheduler, steps and guidance scale, which stock can only share."""
        first = batch[0]
        pipe: Any = self.model.pipe
        pipe.scheduler = fresh_scheduler(first.scheduler, self.model.scheduler_config)
        images = pipe(
            prompt=[one.item.prompt for one in batch],
            negative_prompt=[one.item.negative_prompt for one in batch],
            width=self.shape.width,
            height=self.shape.height,
            num_inference_steps=first.steps,
            guidance_scale=first.guidance_scale,
            generator=[torch.Generator("cpu").manual_seed(one.item.seed) for one in batch],
            output_type="np",
            return_dict=False,
            **({"num_frames": self.shape.frames} if self.model.family.video else {}),
        )[0]
        return list((np.asarray(images) * 255).round().astype(np.uint8))

    def ours(self, engine: Stepwise, requests: Sequence[Request]) -> list[Any]:
        """The longest first, as any who can choose would; what comes behind is hinted at."""
        waiting = sorted(requests, key=lambda one: -one.steps)
        pixels: dict[str, Any] = {}
        while waiting or not engine.idle:
            joining, waiting = waiting[: engine.free_slots], waiting[engine.free_slots :]
            engine.join(joining)
            engine.hint(waiting[: self.shape.bucket])
            pixels |= {one.request.key: made(one).pixels for one in engine.step()}
        return [pixels[one.key] for one in requests]


def request(scheduler: str, steps: int, guidance_scale: float = 5.0) -> Request:
    """Of a prompt that was never there before."""
    number = next(_number)
    return Request(Item(str(number), f"a red circle, number {number}", "", number), scheduler, steps, guidance_scale)


def levels_apart(left: Iterable[Any], right: Iterable[Any]) -> int:
    """The most of 255, over all pictures, pixels and colours."""
    return max(int(np.abs(a.astype(int) - b.astype(int)).max()) for a, b in zip(left, right, strict=True))

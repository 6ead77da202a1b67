"""Latents to pixels, in full buckets; what cannot be published is found here."""

from collections.abc import Sequence
from typing import Any

import torch

from gpu_consumer.engine import stages
from gpu_consumer.engine.account import Account
from gpu_consumer.engine.faults import Trouble, trouble
from gpu_consumer.engine.pixels import defect, to_uint8
from gpu_consumer.engine.protocol import FlawCode
from gpu_consumer.models.loading import Loaded

SENTENCES: dict[FlawCode, str] = {
    "non_finite": "the model gave numbers that are no colours (NaN or infinity), also when decoded in float32",
    "blank_output": "the model gave a picture of a single colour, also when decoded in float32",
}


def decode(loaded: Loaded, latents: Sequence[torch.Tensor], bucket: int, account: Account) -> list[Any | Trouble]:
    """For each latents, (1, ...), at most `bucket` of them: pixels as Made has them, or what is wrong.

    A batch that fails is halved until the bad one is alone; the padded size stays. Raises torch.OutOfMemoryError,
    faults.Sticky.
    """
    try:
        return _decode(loaded, latents, bucket, account)
    except Exception as error:
        found = trouble(error)
    if found.out_of_memory:
        raise torch.OutOfMemoryError(found.message)
    if len(latents) == 1:
        return [found]
    half = len(latents) // 2
    parts = (latents[:half], latents[half:])
    return [one for part in parts for one in decode(loaded, part, bucket, account)]


def _decode(loaded: Loaded, latents: Sequence[torch.Tensor], bucket: int, account: Account) -> list[Any | Trouble]:
    count = len(latents)
    batch = torch.cat([*latents, *[latents[-1]] * (bucket - count)])
    images = stages.decode(loaded, batch, account)[:count]
    defects = [defect(image) for image in images]
    for n, found in enumerate(defects):
        if found and loaded.pipe.vae.dtype != torch.float32 and bool(torch.isfinite(latents[n]).all()):
            again = stages.decode_again(loaded, batch, n, account)
            images = images.float()
            images[n], defects[n] = again, defect(again)
    pixels = to_uint8(images)
    return [
        Trouble(found, f"{SENTENCES[found]}; try another seed") if (found := defects[n]) else pixels[n]
        for n in range(count)
    ]

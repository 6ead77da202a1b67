"""Latents to pixels, in full buckets; what cannot be published is found here."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpu_consumer.engine import stages
from gpu_consumer.engine.account import Account
from gpu_consumer.engine.faults import Trouble, trouble
from gpu_consumer.engine.pixels import defect, to_uint8
from gpu_consumer.engine.protocol import FlawCode
from gpu_consumer.models.loading import Loaded

_SENTENCES: dict[FlawCode, str] = {
    "non_finite": "the model gave numbers that are no colours (NaN or infinity), also when decoded in float32",
    "blank_output": "the model gave a picture of a single colour, also when decoded in float32",
}


def decode(
    loaded: Loaded, latents: Mapping[str, torch.Tensor], bucket: int, account: Account
) -> dict[str, Any | Trouble]:
    """By key, for each latents, (1, ...), at most `bucket` of them: pixels as Made has them, or what is wrong.

    A batch that fails is halved until the bad one is alone; the padded size stays. Raises torch.OutOfMemoryError,
    faults.Sticky.
    """
    try:
        return _decode(loaded, latents, bucket, account)
    except Exception as error:
        found = trouble(error)
    if found.out_of_memory:
        raise torch.OutOfMemoryError(found.message)
    keys = list(latents)
    if len(keys) == 1:
        return {keys[0]: found}
    half = len(keys) // 2
    parts = [{key: latents[key] for key in part} for part in (keys[:half], keys[half:])]
    first, second = (decode(loaded, part, bucket, account) for part in parts)
    return first | second


def _decode(
    loaded: Loaded, latents: Mapping[str, torch.Tensor], bucket: int, account: Account
) -> dict[str, Any | Trouble]:
    keys, rows = list(latents), list(latents.values())
    batch = torch.cat([*rows, *[rows[-1]] * (bucket - len(rows))])
    images = stages.decode(loaded, batch, keys, account)[: len(keys)]
    return rescued(loaded, batch, images, keys, account)


def rescued(
    loaded: Loaded, batch: torch.Tensor, images: torch.Tensor, keys: Sequence[str], account: Account
) -> dict[str, Any | Trouble]:
    """`images`, decoded from the first rows of `batch`, as pixels. Those that cannot be published get another try."""
    defects = [defect(image) for image in images]
    for n, found in enumerate(defects):
        if found and loaded.pipe.vae.dtype != torch.float32 and bool(torch.isfinite(batch[n]).all()):
            again = stages.decode_again(loaded, batch, n, keys[n], account)
            images = images.float()
            images[n], defects[n] = again, defect(again)
    pixels = to_uint8(images)
    return {
        key: Trouble(found, f"{_SENTENCES[found]}; try another seed") if (found := defects[n]) else pixels[n]
        for n, key in enumerate(keys)
    }

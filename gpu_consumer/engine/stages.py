"""The stages of a batch on the device: text, denoise, decode. Each works on a full bucket, padding included.

A picture is a function of configuration, prompt and seed alone: one shape for every batch, a generator of its own for
each item, a scheduler of its own for each call.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gpu_consumer.engine.account import Account
from gpu_consumer.engine.protocol import Item
from gpu_consumer.models.families import fresh_scheduler
from gpu_consumer.models.loading import Loaded
from schemas.config import GenerationConfig


def padded(items: Sequence[Item], bucket: int) -> list[Item]:
    """`bucket` items: the last one again and again. Bytes depend on the shape of a batch, not on what fills it."""
    return [*items, *[items[-1]] * (bucket - len(items))]


@torch.no_grad()
def denoise(
    loaded: Loaded,
    config: GenerationConfig,
    items: Sequence[Item],
    account: Account,
    on_step: Callable[[], None] = lambda: None,
) -> torch.Tensor:
    """Latents of `items`, a full bucket, from the pipeline's own loop. Raises whatever the pipeline raises.

    `on_step` is called after each step; what it raises ends the run.
    """
    pipe = loaded.pipe
    keys = tuple(dict.fromkeys(item.key for item in items))
    frames = {"num_frames": config.frames} if loaded.family.video else {}

    def encode() -> dict[str, Any]:
        prompts, negatives = [item.prompt for item in items], [item.negative_prompt for item in items]
        return loaded.family.encode(pipe, prompts, negatives, config.guidance_scale > 1)

    def run() -> torch.Tensor:
        latents: torch.Tensor = pipe(
            **text,
            **frames,
            **_watch(pipe, on_step),
            height=config.height,
            width=config.width,
            num_inference_steps=config.steps,
            guidance_scale=config.guidance_scale,
            # On the CPU, whose numbers do not depend on the card; one each, so that a slot does not matter.
            generator=[torch.Generator("cpu").manual_seed(item.seed) for item in items],
            output_type="latent",
            return_dict=False,
        )[0]
        return latents

    with account.stage("text"):
        text = account.device.run("text", keys, encode)
    with account.stage("denoise"):
        pipe.scheduler = fresh_scheduler(config.scheduler, loaded.scheduler_config)
        return account.device.run("denoise", keys, run)


def _watch(pipe: Any, on_step: Callable[[], None]) -> dict[str, Any]:
    """The argument that makes `pipe` call `on_step` after each of its steps; none where it cannot."""
    if "callback_on_step_end" not in inspect.signature(pipe.__call__).parameters:
        return {}

    def stepped(_pipe: Any, _step: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        on_step()
        return tensors

    return {"callback_on_step_end": stepped}


def decode(loaded: Loaded, latents: torch.Tensor, keys: Sequence[str], account: Account) -> torch.Tensor:
    """Pixels of a full bucket of latents, those of `keys` and then padding, as Family.decode gives them."""
    return _decoded("decode", loaded, latents, keys, account)


def decode_again(loaded: Loaded, latents: torch.Tensor, n: int, key: str, account: Account) -> torch.Tensor:
    """Item `n` in float32: what overflowed in half precision mostly does not here. Always in a bucket of one, which
    takes no more memory than a bucket of two did, and has the same bytes whoever was beside it."""
    vae: Any = loaded.pipe.vae
    own = vae.dtype
    vae.to(torch.float32)
    try:
        return _decoded("decode again", loaded, latents[n : n + 1].float(), (key,), account)[0]
    finally:
        vae.to(own)


@torch.no_grad()
def _decoded(stage: str, loaded: Loaded, latents: torch.Tensor, keys: Sequence[str], account: Account) -> torch.Tensor:
    """`stage` as the device is told it: other kernels, and another time, than of a first try."""

    def run() -> torch.Tensor:
        images: torch.Tensor = loaded.family.decode(loaded.pipe, latents)
        if loaded.offloaded:
            loaded.pipe.maybe_free_model_hooks()  # or the decoder would stay beside the next batch's denoiser
        return images

    with account.stage("decode"):
        return account.device.run(stage, keys, run)


def warnings(loaded: Loaded, item: Item) -> tuple[str, ...]:
    """What the requester should know: a prompt longer than every encoder of the model reads."""
    tokenizer, limit = max(_tokenizers(loaded), key=lambda found: found[1])
    texts = {"prompt": item.prompt, "negative prompt": item.negative_prompt}
    counts = {what: len(tokenizer(text).input_ids) for what, text in texts.items()}
    return tuple(
        f"the {what} has {count} tokens and the model reads {limit}: the end was left out"
        for what, count in counts.items()
        if count > limit
    )


def _tokenizers(loaded: Loaded) -> list[tuple[Any, int]]:
    """Those whose encoder is there, and how many tokens of each are read."""
    found = []
    for number in ("", "_2", "_3"):
        name = f"tokenizer{number}"
        tokenizer, encoder = (getattr(loaded.pipe, part, None) for part in (name, f"text_encoder{number}"))
        if tokenizer is not None and encoder is not None:
            longest = int(tokenizer.model_max_length)
            found.append((tokenizer, min(longest, loaded.family.tokens_max.get(name, longest))))
    return found

"""Training from nothing: the VAE, its decoder alone, then the UNet and the text encoder together on the latents."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_consumer.models.offline import go_offline
from gpu_consumer.models.saving import save
from gpu_consumer.models.shapes import parts
from gpu_consumer.models.shapes.descent import Descent, Report
from gpu_consumer.models.shapes.draw import held_out, lesson
from gpu_consumer.models.shapes.kept import NAME
from gpu_consumer.models.shapes.words import tokenizer as word_tokenizer

_EDGE_WEIGHT = 4.0
_LATENT_ERROR = 0.05
_ANCHOR_SLACK = 0.05  # squared, of colours from -1 to 1


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and on how much; the defaults give a model like the one kept beside this file."""

    pictures: int = 12_000
    vae_steps: int = 3_600
    vae_batch: int = 8
    vae_rate: float = 4e-3
    decoder_steps: int = 2_500
    decoder_batch: int = 8
    decoder_rate: float = 2e-3
    unet_steps: int = 11_000
    unet_batch: int = 32
    unet_rate: float = 1.2e-3
    seed: int = 0


def train_shapes(directory: Path, plan: Plan, report: Report) -> str:
    """Write the pipeline to `directory`/NAME, replacing one that is there; return its digest.

    Blocks for about an hour on two cores. Stopped, it goes on from its last checkpoint, in a hidden folder beside the
    model, when it is called again. The same plan draws the same lessons everywhere; the last bits of the weights
    depend on the processor, and so does the digest.
    """
    go_offline()
    scratch = directory / f".{NAME}.training"
    scratch.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):  # the initial weights come from torch's own generator
        torch.manual_seed(plan.seed)
        tokenizer = word_tokenizer()
        vae, text_encoder, unet = parts.vae(), parts.text_encoder(tokenizer), parts.unet()
    drawn, sentences = lesson(plan.pictures, plan.seed, lambda scene: not held_out(scene))
    pixels = as_pixels(drawn)
    train_vae(vae, pixels, plan, scratch, report)
    latents = encode(vae, pixels)
    train_decoder(vae, latents, pixels, plan, scratch, report)
    scale = float(1 / latents.std())
    vae.register_to_config(scaling_factor=scale)
    train_unet(unet, text_encoder, latents * scale, tokens(tokenizer, sentences), plan, scratch, report)
    digest = save(assemble(vae, text_encoder, tokenizer, unet).to(torch.float16), directory / NAME)
    shutil.rmtree(scratch)
    return digest


def as_pixels(pictures: NDArray[np.uint8]) -> torch.Tensor:
    """(n, height, width, 3) of levels to (n, 3, height, width) from -1 to 1, float32."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1


def tokens(tokenizer: Any, sentences: list[str]) -> torch.Tensor:
    """(n + 1, CONTEXT): the sentences, and the empty one last."""
    ids: torch.Tensor = tokenizer([*sentences, ""], padding="max_length", return_tensors="pt").input_ids
    return ids


def train_vae(vae: Any, pixels: torch.Tensor, plan: Plan, scratch: Path, report: Report) -> None:
    def loss(chance: torch.Generator) -> torch.Tensor:
        batch = pixels[torch.randint(len(pixels), (plan.vae_batch,), generator=chance)]
        latent = vae.encode(batch).latent_dist
        error = vae.decode(latent.sample(chance)).sample - batch
        # Three latent channels stay near a small picture, and the fourth is free: without this anchor the colours take
        # a thousand steps to part. What they may stray by leaves room for edges.
        small = torch.nn.functional.avg_pool2d(batch, parts.LATENT_PIXELS)
        anchor = (torch.nn.functional.mse_loss(latent.mean[:, :3], small) - _ANCHOR_SLACK).clamp(min=0)
        # Absolute error keeps edges sharp, squared error large areas right; the little divergence keeps latents smooth.
        total: torch.Tensor = error.abs().mean() + error.square().mean() + 1e-5 * latent.kl().mean() + 0.5 * anchor
        return total

    Descent("vae", plan.vae_steps, plan.vae_rate, plan.seed, scratch / "vae.pt", report).run([vae.train()], loss)
    vae.eval()


@torch.no_grad()
def encode(vae: Any, pixels: torch.Tensor) -> torch.Tensor:
    """The mean latent of each picture, unscaled."""
    return torch.cat([vae.encode(batch).latent_dist.mean for batch in torch.split(pixels, 64)])


def train_decoder(
    vae: Any, latents: torch.Tensor, pixels: torch.Tensor, plan: Plan, scratch: Path, report: Report
) -> None:
    """Corners and edges, which are few pixels, with no encoder to pay for: the latents stand still by now.

    They are disturbed a little, as the UNet's are.
    """
    blur = torch.nn.AvgPool2d(5, stride=1, padding=2, count_include_pad=False)

    def loss(chance: torch.Generator) -> torch.Tensor:
        chosen = torch.randint(len(latents), (plan.decoder_batch,), generator=chance)
        picture, latent = pixels[chosen], latents[chosen]
        noise = torch.randn(latent.shape, generator=chance)
        error = vae.decode(latent + _LATENT_ERROR * noise).sample - picture
        edges = ((picture - blur(picture)).abs().amax(dim=1, keepdim=True) > 0.02).float()
        total: torch.Tensor = ((error.abs() + error.square()) * (1 + _EDGE_WEIGHT * edges)).mean()
        return total

    decoder = [vae.post_quant_conv.train(), vae.decoder.train()]
    Descent("decoder", plan.decoder_steps, plan.decoder_rate, plan.seed, scratch / "decoder.pt", report).run(
        decoder, loss
    )
    vae.eval()


def train_unet(
    unet: Any,
    text_encoder: Any,
    latents: torch.Tensor,
    ids: torch.Tensor,
    plan: Plan,
    scratch: Path,
    report: Report,
) -> None:
    """Velocity prediction (Salimans and Ho 2022, arXiv 2202.00512); one sentence in ten is left out, for guidance."""
    schedule = parts.scheduler()
    levels = schedule.config.num_train_timesteps

    def loss(chance: torch.Generator) -> torch.Tensor:
        chosen = torch.randint(len(latents), (plan.unet_batch,), generator=chance)
        clean = latents[chosen]
        noise = torch.randn(clean.shape, generator=chance)
        level = torch.randint(levels, (plan.unet_batch,), generator=chance)
        silent = torch.rand(plan.unet_batch, generator=chance) < 0.1
        text = text_encoder(ids[chosen.where(~silent, len(ids) - 1)]).last_hidden_state
        velocity = unet(schedule.add_noise(clean, noise, level), level, text).sample
        return torch.nn.functional.mse_loss(velocity, schedule.get_velocity(clean, noise, level))

    modules = [unet.train(), text_encoder.train()]
    Descent("unet", plan.unet_steps, plan.unet_rate, plan.seed, scratch / "unet.pt", report).run(modules, loss)
    unet.eval()
    text_encoder.eval()


def assemble(vae: Any, text_encoder: Any, tokenizer: Any, unet: Any) -> Any:
    from diffusers import StableDiffusionPipeline

    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=parts.scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )

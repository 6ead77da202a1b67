from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gpu_consumer.models.families import FAMILIES
from gpu_consumer.models.families.animatediff import DECODE_FRAMES
from gpu_consumer.models.families.base import unscaled
from schemas.config import VIDEO_FAMILIES


def vae(dtype: torch.dtype = torch.float32, **config: Any) -> Any:
    return SimpleNamespace(dtype=dtype, config=SimpleNamespace(scaling_factor=0.5, **config))


LATENTS = torch.tensor([1.0, 2.0]).reshape(1, 2, 1, 1)


def flat(latents: torch.Tensor) -> list[float]:
    return latents.reshape(-1).tolist()


def test_a_latent_is_brought_back_to_the_vaes_scale() -> None:
    assert flat(unscaled(vae(), LATENTS)) == [2.0, 4.0]
    assert flat(unscaled(vae(shift_factor=None, latents_mean=None, latents_std=None), LATENTS)) == [2.0, 4.0]
    assert unscaled(vae(torch.bfloat16), LATENTS).dtype == torch.bfloat16


def test_the_shift_of_sd3s_and_the_statistics_of_other_vaes_are_heard() -> None:
    assert flat(unscaled(vae(shift_factor=0.25), LATENTS)) == [2.25, 4.25]
    assert flat(unscaled(vae(latents_mean=[1.0, -1.0], latents_std=[10.0, 100.0]), LATENTS)) == [21.0, 399.0]


def test_the_schema_and_the_families_agree_on_what_is_a_video() -> None:
    assert {name for name, family in FAMILIES.items() if family.video} == set(VIDEO_FAMILIES)


class Recorder:
    """A VAE whose picture of a latent is its three first channels; it writes down how many it was given."""

    dtype = torch.float32
    config = SimpleNamespace(scaling_factor=1.0)

    def __init__(self) -> None:
        self.counts: list[int] = []

    def decode(self, latents: torch.Tensor, *, return_dict: bool) -> tuple[torch.Tensor]:
        assert not return_dict
        self.counts.append(len(latents))
        return (latents[:, :3],)


@pytest.mark.parametrize(("videos", "frames"), [(1, 8), (2, 8), (3, 7), (4, 16)])
def test_frames_are_decoded_in_chunks_of_one_size_and_come_back_in_order(videos: int, frames: int) -> None:
    recorder = Recorder()
    latents = torch.arange(videos * 4 * frames * 2 * 2, dtype=torch.float32).reshape(videos, 4, frames, 2, 2)
    images = FAMILIES["animatediff"].decode(SimpleNamespace(vae=recorder), latents)
    assert torch.equal(images, latents[:, :3].movedim(2, 1))
    assert set(recorder.counts) == {min(DECODE_FRAMES, videos * frames)}

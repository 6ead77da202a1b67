"""What each family of models was made for: the sizes, lengths and texts beyond which its pictures get worse."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.config import Family, GenerationConfig


@dataclass(frozen=True, slots=True)
class FamilyLimits:
    """`pixels`: of a picture or frame, as in training.

    `frames_max`: of a video, as its motion modules were trained. `tokens_max`: how many tokens of a tokenizer, by the
    name of its folder, are read where that is fewer than the tokenizer says.
    """

    pixels: int
    frames_max: int = 1
    tokens_max: Mapping[str, int] = field(default_factory=dict)


# The sizes of the published models. T5 says 512 of itself; SD3 was trained with, and the stock pipeline reads, 256.
FAMILY_LIMITS: Mapping[Family, FamilyLimits] = {
    "sd15": FamilyLimits(pixels=512 * 512),
    "sdxl": FamilyLimits(pixels=1024 * 1024),
    "sd3": FamilyLimits(pixels=1024 * 1024, tokens_max={"tokenizer_3": 256}),
    "animatediff": FamilyLimits(pixels=512 * 512, frames_max=32),
}

# Twice the pixels still make one picture; from about three times on, a model draws its subject twice.
_WORSE_FROM = 2.5


def doubts(config: GenerationConfig) -> list[str]:
    """What a config may be published with, and whoever publishes it should know: sentences, most often none."""
    limits = FAMILY_LIMITS[config.family]
    pixels = config.width * config.height
    found = []
    if pixels > _WORSE_FROM * limits.pixels:
        found.append(
            f"{config.label}: {config.width} x {config.height} has {pixels / limits.pixels:.1f} times the pixels that "
            f"the family {config.family} was made for; expect its subject more than once"
        )
    if config.frames > limits.frames_max:
        found.append(
            f"{config.label}: the family {config.family} was made for {limits.frames_max} frames at most, not "
            f"{config.frames}; expect it to lose its way"
        )
    return found

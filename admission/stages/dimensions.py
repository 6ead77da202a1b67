"""Is what it asks for of a size that this deployment draws? Sizes and lengths are the config's, the count its own."""

from admission.draft import Draft, Refusal, StageResult
from admission.settings import AdmissionLimits
from admission.state import State
from admission.world import World
from schemas.config import GenerationConfig
from schemas.counted import counted
from schemas.families import FAMILY_LIMITS


def dimensions(draft: Draft, state: State, world: World) -> StageResult:
    """The operators' limits stand above every config, one that came through control included."""
    del state
    config, limits = draft.config, world.limits
    problem = _picture(config, limits) or _video(config, limits)
    if problem is not None:
        return Refusal("invalid_dimensions", f"config {config.label} {problem}; choose another config", "config")
    images, each = draft.request.images, config.width * config.height * config.frames
    if images * each > limits.request_pixels_max:
        fit = limits.request_pixels_max // each
        cure = f"ask for at most {fit}" if fit else "choose a smaller config"
        return Refusal(
            "invalid_dimensions",
            f"{counted(images, 'image')} of config {config.label}: {images * each} pixels, and a request may have "
            f"{limits.request_pixels_max}; {cure}",
            "images" if fit else "config",
        )
    return None


def _picture(config: GenerationConfig, limits: AdmissionLimits) -> str | None:
    pixels = config.width * config.height
    most = min(limits.pixels_max, int(limits.family_pixels_factor_max * FAMILY_LIMITS[config.family].pixels))
    if pixels <= most:
        return None
    return (
        f"draws {config.width} x {config.height} pixels, {pixels} in all, and {most} are allowed of the family "
        f"{config.family}"
    )


def _video(config: GenerationConfig, limits: AdmissionLimits) -> str | None:
    if config.frames == 1:
        return None
    if config.frames > limits.frames_max:
        return f"makes {config.frames} frames, and {limits.frames_max} are allowed"
    seconds = config.duration_seconds
    if seconds is not None and seconds > limits.video_seconds_max:
        return f"makes a video of {seconds:g} s, and {limits.video_seconds_max:g} s are allowed"
    return None

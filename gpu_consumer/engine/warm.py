"""An engine is ready when it has drawn a picture, and the same one as the engine before it."""

import hashlib
import time
from collections.abc import Mapping, Sequence

import av
import diffusers
import PIL
import torch
import transformers

from gpu_consumer.engine.protocol import DeviceInfo, Ended, Flaw, Item, Ready
from gpu_consumer.engine.sessions.base import Decoded
from gpu_consumer.engine.sessions.server import Server
from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig

_KNOWN = Item("known-answer", "a red circle on a white table", "blurred", 20)
# All that a step does is done in the first two; a solver of second order needs three to show all of its arithmetic.
_STEPS = 3


class WarmUpFailed(Exception):
    """The pipeline does not run here: a wrong build of a kernel, or too little memory for even one picture."""


class WrongAnswer(Exception):
    """The device draws another picture than it did before. Nothing that it draws may be published."""


def warm_up(
    server: Server,
    device: DeviceInfo,
    preload: Sequence[GenerationConfig],
    answers: Mapping[str, str],
    import_seconds: float,
) -> Ready:
    """Load each model of `preload`, and draw the known picture in each batch that it will be asked for. Blocks.

    `answers`: what the engine before this one drew. Raises ModelUnavailable, WarmUpFailed, WrongAnswer, faults.Sticky.
    """
    timings = {"import": import_seconds, "load": 0.0, "warm": 0.0}
    drawn: dict[str, str] = {}
    for config in _last_wanted_first(preload):
        started = time.monotonic()
        try:
            end, load_seconds = server.draw(config, _KNOWN, _STEPS)
        except ValueError as error:
            raise ModelUnavailable(str(error)) from None
        timings["load"] += load_seconds
        timings["warm"] += time.monotonic() - started - load_seconds
        answer = _answer(config, end)
        if answer is not None:
            drawn[config.config_hash] = answer
            if answers.get(config.config_hash, answer) != answer:
                raise WrongAnswer(
                    f"a picture of {config.label} that is known came out as another one; "
                    f"look at the health of {device.product} {device.uuid}"
                )
    return Ready(device, _libraries(), timings, drawn)


def _last_wanted_first(preload: Sequence[GenerationConfig]) -> list[GenerationConfig]:
    """By model, each loaded once, and the first of the list last: its model stays on the device."""
    models = list(dict.fromkeys(config.model_key for config in preload))
    return sorted(preload, key=lambda config: -models.index(config.model_key))


def _answer(config: GenerationConfig, end: Ended | Decoded) -> str | None:
    """SHA-256 of the pixels of the known picture; its flaw if it has one; None if its batch had to be made smaller."""
    if isinstance(end, Decoded):
        return hashlib.sha256(end.pixels.tobytes()).hexdigest() if end.bucket == config.bucket else None
    flaw = end.outcome
    assert isinstance(flaw, Flaw), "a picture comes as Decoded, and nobody told it to leave"
    if flaw.code in ("generation_error", "out_of_memory"):
        raise WarmUpFailed(f"the first picture of {config.label} fails here: {flaw.message}")
    return flaw.code  # three steps of a model that needs thirty may end in a single colour


def _libraries() -> dict[str, str]:
    """What the bytes of a picture depend on beside its device."""
    versions = {
        "torch": str(torch.__version__),  # a class of torch's own: unpickling it would import torch in the consumer
        "diffusers": diffusers.__version__,
        "transformers": transformers.__version__,
        "av": av.__version__,  # and with it the encoder of videos, as the ones of pictures with Pillow
        "pillow": PIL.__version__,
        "threads": str(torch.get_num_threads()),  # which split the sums of a CPU
    }
    if torch.cuda.is_available():
        versions["cuda"] = str(torch.version.cuda)
        versions["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    return versions

"""The trained model that lies beside this file, and how a models directory gets it. No torch."""

import shutil
import tempfile
from pathlib import Path

from gpu_consumer.models.digests import ModelUnavailable, model_digest
from gpu_consumer.models.saving import holds, put

NAME = "shapes-sd15"
KEPT = Path(__file__).with_name("model")


def add_shapes(directory: Path) -> str:
    """Copy the kept model to `directory`/NAME and return its digest. One that is there is replaced if it differs.

    Blocks for the copying of some megabytes. Raises ModelUnavailable where this installation has no kept model.
    """
    try:
        digest = model_digest(KEPT)
    except ModelUnavailable:
        raise ModelUnavailable(
            f"this installation has no trained model in {KEPT}; install it whole, or train one with "
            f"`kiln models train-shapes {directory}`"
        ) from None
    place = directory / NAME
    if holds(place, digest):
        return digest
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{NAME}.", dir=directory) as scratch:
        made = Path(scratch) / NAME
        shutil.copytree(KEPT, made, ignore=shutil.ignore_patterns(".*"))
        put(made, place)
    return digest

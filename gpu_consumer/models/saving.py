"""How a models directory gets a folder: whole or not at all, and the same bytes on any machine. No torch."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from gpu_consumer.models.digests import model_digest

# What says where and with which release a file was written.
_TRACES = ("_name_or_path", "_diffusers_version", "transformers_version", "local_files_only")


def save(pipe: Any, place: Path) -> str:
    """Write `pipe` to the folder `place`, made with all above it, and return its digest. One that is there is replaced
    if it differs."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as scratch:
        made = Path(scratch) / place.name
        pipe.save_pretrained(made, safe_serialization=True)
        _normalise(made)
        digest = model_digest(made)
        if not holds(place, digest):
            put(made, place)
    return digest


def holds(place: Path, digest: str) -> bool:
    """Whether the model is there already. Raises ModelUnavailable where what is there cannot be read."""
    return place.is_dir() and any(place.iterdir()) and model_digest(place) == digest


def put(made: Path, place: Path) -> None:
    """Move the folder `made` to `place`, on the same file system: whole or not at all, for what is there."""
    shutil.rmtree(place, ignore_errors=True)
    made.rename(place)


def _normalise(folder: Path) -> None:
    """Take the traces out of the JSON, and spell the rest in one way."""
    for path in folder.rglob("*.json"):
        body = json.loads(path.read_text("utf-8"))
        for field in _TRACES:
            body.pop(field, None)
        path.write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)  # written for its owner alone, and a consumer runs as somebody else

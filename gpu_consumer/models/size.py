"""What a model will take on its device, read from the headers of its safetensors files: no weights are read."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_FLOATS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
_FIXED_BYTES = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}
# A folder may hold the same weights again as a variant (model.fp16.safetensors), which is not loaded.
_LOADED = re.compile(r"^(diffusion_pytorch_)?model(-\d+-of-\d+)?\.safetensors$")


def weights_bytes(folder: Path, dtype: str, offload: str = "none") -> int:
    """Of the pipeline in `folder` once it is loaded as `dtype`. 0 where its files cannot be read: loading says why.

    `offload` as a config has it: with model, of the largest part; with sequential, of the largest tensor, which is
    most of the largest layer. The layout is that of the format: eight bytes of length, little-endian, then as much
    JSON.
    """
    try:
        parts = [
            [size for path in paths for size in _tensors_bytes(path, _ITEM_BYTES[dtype])] for paths in _parts(folder)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0
    if offload == "sequential":
        return max((size for part in parts for size in part), default=0)
    sizes = [sum(part) for part in parts]
    return max(sizes, default=0) if offload == "model" else sum(sizes)


def _parts(folder: Path) -> Iterator[list[Path]]:
    """The files of each part that is loaded."""
    index: dict[str, Any] = json.loads((folder / "model_index.json").read_text("utf-8"))
    for name, part in index.items():
        if isinstance(part, list) and part != [None, None]:
            yield [path for path in sorted((folder / name).glob("*.safetensors")) if _LOADED.match(path.name)]


def _tensors_bytes(path: Path, float_bytes: int) -> list[int]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise ValueError(f"{path} is not a safetensors file")
        header: dict[str, Any] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return [
        math.prod(tensor["shape"])
        * (float_bytes if tensor["dtype"] in _FLOATS else _FIXED_BYTES.get(tensor["dtype"], 1))
        for tensor in header.values()
    ]

"""What a model will take on its device, read from the headers of its safetensors files: no weights are read."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_FLOATS = {"F64", "F32", "F16", "BF16"}
_FIXED_BYTES = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}
# A folder may hold the same weights again as a variant (model.fp16.safetensors), which is not loaded.
_LOADED = re.compile(r"^(diffusion_pytorch_)?model(-\d+-of-\d+)?\.safetensors$")


def weights_bytes(folder: Path, dtype: str) -> int:
    """Of the pipeline in `folder` once it is loaded as `dtype`. 0 where its files cannot be read: loading says why.

    The layout is that of the format: eight bytes of length, little-endian, then as much JSON.
    """
    try:
        return sum(_tensors_bytes(path, _ITEM_BYTES[dtype]) for path in _files(folder))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0


def _files(folder: Path) -> Iterator[Path]:
    index: dict[str, Any] = json.loads((folder / "model_index.json").read_text("utf-8"))
    for name, part in index.items():
        if isinstance(part, list) and part != [None, None]:
            yield from (path for path in sorted((folder / name).glob("*.safetensors")) if _LOADED.match(path.name))


def _tensors_bytes(path: Path, float_bytes: int) -> int:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise ValueError(f"{path} is not a safetensors file")
        header: dict[str, Any] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return sum(
        math.prod(tensor["shape"])
        * (float_bytes if tensor["dtype"] in _FLOATS else _FIXED_BYTES.get(tensor["dtype"], 1))
        for tensor in header.values()
    )

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.models.size import weights_bytes

PARTS = {
    "unet": {"weight": ("F32", [10, 20]), "steps": ("I64", [3])},
    "text_encoder": {"weight": ("F16", [7]), "nothing": ("F32", [0, 4])},
}


def write(path: Path, tensors: dict[str, tuple[str, list[int]]]) -> None:
    """A safetensors file without its data, which nobody may need."""
    header: dict[str, Any] = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]} for name, (dtype, shape) in tensors.items()
    }
    body = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(len(body).to_bytes(8, "little") + body)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    index: dict[str, Any] = {"_class_name": "Some", "unet": ["diffusers", "U"], "text_encoder": ["transformers", "T"]}
    (tmp_path / "model_index.json").write_text(json.dumps(index | {"safety_checker": [None, None]}))
    write(tmp_path / "unet" / "diffusion_pytorch_model.safetensors", PARTS["unet"])
    write(tmp_path / "text_encoder" / "model.safetensors", PARTS["text_encoder"])
    return tmp_path


@pytest.mark.parametrize(("dtype", "expected"), [("float32", 4 * 207 + 24), ("bfloat16", 2 * 207 + 24)])
def test_floats_take_what_they_are_loaded_as(folder: Path, dtype: str, expected: int) -> None:
    assert weights_bytes(folder, dtype) == expected


def test_floats_of_one_byte_are_loaded_as_the_others(folder: Path) -> None:
    write(folder / "unet" / "diffusion_pytorch_model.safetensors", {"weight": ("F8_E4M3", [10, 20])})
    assert weights_bytes(folder, "float16") == 2 * 207


def test_what_is_not_loaded_does_not_count(folder: Path) -> None:
    write(folder / "unet" / "diffusion_pytorch_model.fp16.safetensors", PARTS["unet"])
    write(folder / "safety_checker" / "model.safetensors", PARTS["unet"])
    write(folder / "other" / "model.safetensors", PARTS["unet"])
    assert weights_bytes(folder, "float32") == 4 * 207 + 24


def test_shards_are_added_up(folder: Path) -> None:
    for n in (1, 2):
        write(folder / "text_encoder" / f"model-0000{n}-of-00002.safetensors", PARTS["text_encoder"])
    (folder / "text_encoder" / "model.safetensors").unlink()
    assert weights_bytes(folder, "float32") == 4 * 214 + 24


@pytest.mark.parametrize("damage", [b"", b"\xff" * 8, b"\x02" + bytes(7) + b"[]", b"\x07" + bytes(7) + b'{"a":1}'])
def test_a_damaged_file_is_left_for_loading_to_tell(folder: Path, damage: bytes) -> None:
    (folder / "unet" / "diffusion_pytorch_model.safetensors").write_bytes(damage)
    assert weights_bytes(folder, "float32") == 0
    assert weights_bytes(folder / "absent", "float32") == 0


def test_with_offload_it_is_what_stands_on_the_device_at_one_time(folder: Path) -> None:
    parts = {name: weights_bytes(alone(folder, name), "float32") for name in PARTS}
    assert weights_bytes(folder, "float32", "model") == max(parts.values())
    assert sum(parts.values()) == weights_bytes(folder, "float32")
    assert 0 < weights_bytes(folder, "float32", "sequential") < max(parts.values())


def alone(folder: Path, part: str) -> Path:
    """The same folder with one part in its index."""
    copy = folder / f"only-{part}"
    copy.mkdir()
    (copy / "model_index.json").write_text(json.dumps({part: ["some", "Class"]}))
    (copy / part).symlink_to(folder / part, target_is_directory=True)
    return copy

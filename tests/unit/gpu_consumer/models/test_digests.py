"""What is proven: everything that is loaded, and nothing that was changed since."""

import json
import os
from pathlib import Path

import pytest

from gpu_consumer.models.digests import ModelUnavailable, model_digest, verify


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "vae").mkdir(parents=True)
    (folder / "model_index.json").write_text("{}")
    (folder / "vae" / "model.safetensors").write_bytes(b"weights")
    return folder


def test_a_part_that_is_a_link_is_proven_like_one_that_is_none(model: Path, tmp_path: Path) -> None:
    digest = model_digest(model)
    (model / "vae").rename(tmp_path / "elsewhere")
    (model / "vae").symlink_to(tmp_path / "elsewhere")
    assert model_digest(model) == digest
    (tmp_path / "elsewhere" / "model.safetensors").write_bytes(b"others!")
    with pytest.raises(ModelUnavailable, match="fetch the right files"):
        verify(model, digest)


def test_links_that_lead_in_a_circle_are_one_sentence(model: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (model / "vae" / "there").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(model)
    with pytest.raises(ModelUnavailable, match="leads back"):
        model_digest(model)


def test_content_that_was_changed_at_the_same_size_and_time_is_seen(model: Path) -> None:
    file = model / "vae" / "model.safetensors"
    digest, status = model_digest(model), file.stat()
    file.write_bytes(b"WEIGHTS")
    while file.stat().st_ctime_ns == status.st_ctime_ns or file.stat().st_mtime_ns != status.st_mtime_ns:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # the clock ticks some hundred times a second
    assert model_digest(model) != digest


def test_a_name_that_is_no_text_is_one_sentence(model: Path) -> None:
    Path(os.fsdecode(os.fsencode(model) + b"/\xff")).write_bytes(b"")
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        model_digest(model)
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        verify(model, "sha256:" + "0" * 64)


@pytest.mark.parametrize("shard", ["../other.safetensors", "/other.safetensors", ".hidden.safetensors", 7])
def test_weights_outside_of_what_is_proven_are_refused(model: Path, shard: object) -> None:
    index = {"metadata": {}, "weight_map": {"layer.weight": "model.safetensors", "layer.bias": shard}}
    (model / "vae" / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelUnavailable, match="which is no file of that folder"):
        verify(model, model_digest(model))


def test_weights_in_several_files_are_proven(model: Path) -> None:
    index = {"metadata": {}, "weight_map": {"layer.weight": "model.safetensors"}}
    (model / "vae" / "model.safetensors.index.json").write_text(json.dumps(index))
    verify(model, model_digest(model))

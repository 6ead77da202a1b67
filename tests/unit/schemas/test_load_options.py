"""Options by which a model is loaded: what they are to the hash, to the model's key and to a batch."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.config import LOAD_OPTIONS, PIXEL_OPTIONS, GenerationConfig
from tests.unit.schemas.test_config import config

DIGEST = "sha256:" + "1" * 64
CHOSEN: dict[str, dict[str, Any]] = {
    "vae_slicing": {"vae_slicing": True},
    "vae_tiling": {"vae_tiling": 256},
    "attention": {"attention": "xformers"},
    "compile": {"compile": {"backend": "inductor"}},
    "offload": {"offload": "model", "batching": "whole"},
    "loras": {"loras": [{"name": "ink", "digest": DIGEST}]},
}


def test_every_option_is_known_to_be_of_the_load_or_of_the_batch() -> None:
    assert set(LOAD_OPTIONS) == set(CHOSEN)
    assert set(PIXEL_OPTIONS) == {"batching", *LOAD_OPTIONS}


@pytest.mark.parametrize("name", CHOSEN)
def test_one_that_was_chosen_is_another_hash_another_model_and_another_batch(name: str) -> None:
    """Case DIF-07."""
    batching = CHOSEN[name].get("batching", "step")
    one, none = config(**CHOSEN[name]), config(batching=batching)
    assert one.config_hash != none.config_hash
    assert one.model_key != none.model_key
    assert one.kind != none.kind


@pytest.mark.parametrize("name", CHOSEN)
def test_one_is_read_as_it_was_written(name: str) -> None:
    one = config(**CHOSEN[name])
    again = GenerationConfig.model_validate_json(one.model_dump_json())
    assert (again, again.config_hash, again.model_key) == (one, one.config_hash, one.model_key)


def test_the_default_is_neither_hashed_nor_written() -> None:
    spelled = config(
        vae_slicing=False, vae_tiling=False, attention="sdpa", compile=None, offload="none", loras=[]
    )  # as a person may write them out
    assert spelled.config_hash == config().config_hash
    assert spelled.model_key == config().model_key == "sd15." + "a" * 16 + ".float16"
    assert not set(LOAD_OPTIONS) & set(json.loads(spelled.model_dump_json()))


def test_configs_of_different_loras_never_share_a_batch() -> None:
    """Case DIF-07: a LoRA is merged into the weights, so its digest and its scale make another model."""

    def lora(name: str, digit: str, scale: float) -> dict[str, Any]:
        return {"name": name, "digest": "sha256:" + digit * 64, "scale": scale}

    sets: list[list[dict[str, Any]]] = [
        [],
        [lora("ink", "1", 1)],
        [lora("ink", "2", 1)],
        [lora("ink", "1", 0.5)],
        [lora("ink", "1", 1), lora("oil", "2", 1)],
        [lora("oil", "2", 1), lora("ink", "1", 1)],
    ]
    for batching in ("step", "whole"):
        configs = [config(loras=each, batching=batching) for each in sets]
        assert len({each.kind for each in configs}) == len({each.model_key for each in configs}) == len(sets)


@pytest.mark.parametrize(
    ("changes", "cure"),
    [
        ({"offload": "model"}, "batching: whole"),
        ({"offload": "sequential", "batching": "step"}, "batching: whole"),
        ({"offload": "model", "batching": "whole", "compile": {}}, "leave either offload or compile out"),
        ({"compile": {"backend": "aot_eager", "mode": "reduce-overhead"}}, "take inductor"),
        ({"compile": {"mode": "max-autotune"}}, "reduce-overhead"),
        ({"compile": {"parts": []}}, "at least 1"),
        ({"loras": [{"name": "ink", "digest": DIGEST}] * 2}, "sum of its scales"),
        ({"loras": [{"name": "../ink", "digest": DIGEST}]}, "name"),
        ({"loras": [{"name": "ink"}]}, "digest"),
        ({"loras": [{"name": "ink", "digest": DIGEST, "scale": float("nan")}]}, "finite"),
        ({"vae_tiling": 65}, "multiple of 64"),
        ({"vae_tiling": 1}, "64"),
        ({"attention": "flash"}, "xformers"),
    ],
)
def test_what_cannot_be_together_is_refused_with_the_cure(changes: dict[str, Any], cure: str) -> None:
    with pytest.raises(ValidationError, match=cure):
        config(**changes)

"""How two configurations differ."""

from typing import Any

import pytest

from schemas.config import GenerationConfig
from schemas.differences import Difference, differences
from tests.unit.schemas.test_config import BODY


def made(**changes: Any) -> GenerationConfig:
    return GenerationConfig.model_validate({**BODY, **changes})


def test_what_is_the_same_does_not_differ() -> None:
    assert differences(made(), made(version=7)) == []


def test_each_field_is_told_with_both_values() -> None:
    price = {**BODY["price"], "gpu_seconds": 3.5}
    assert differences(made(), made(steps=77, price=price, model={**BODY["model"], "name": "other"})) == [
        Difference("model.name", BODY["model"]["name"], "other", pixels=True),
        Difference("steps", BODY["steps"], 77, pixels=True),
        Difference("price.gpu_seconds", BODY["price"]["gpu_seconds"], 3.5, pixels=False),
    ]


def test_an_option_is_told_with_its_default() -> None:
    assert differences(made(), made(batching="whole", vae_slicing=True)) == [
        Difference("batching", "step", "whole", pixels=True),
        Difference("vae_slicing", False, True, pixels=True),
    ]
    compiled = differences(made(), made(compile={"backend": "eager"}))
    assert ("compile.backend", "eager") in [(each.field, each.other) for each in compiled]


@pytest.mark.parametrize("changes", [{"steps": 77}, {"vae_tiling": True}, {"quality": 10}, {"bucket": 3}])
def test_pixels_are_said_to_change_where_the_hash_does(changes: dict[str, Any]) -> None:
    assert all(each.pixels for each in differences(made(), made(**changes)))
    assert made().config_hash != made(**changes).config_hash
    assert not any(each.pixels for each in differences(made(), made(retired=True, max_images=1, pool="other")))

"""Where a prompt and a configuration come from."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gpu_consumer.verify.wish import Wish, asked, config_of
from schemas.catalogue import ConfigCatalogue
from schemas.config import GenerationConfig
from schemas.config_file import ConfigFile
from schemas.errors import CommandError
from schemas.result import ConfigUsed, Environment, Succeeded
from tests.unit.gpu_consumer.work import config


def result(**changes: Any) -> Succeeded:
    used = config()
    values: dict[str, Any] = {
        "tenant": "blue", "request_id": "r1", "job_id": "j", "finished_at": datetime.now(UTC), "artifacts": (),
        "config": used_of(used), "seed": 7, "batch_size": 1, "bucket": 4, "environment": Environment(device="CPU"),
        "peak_vram_bytes": 0,
    }  # fmt: skip
    return Succeeded(**(values | changes))


def used_of(config: GenerationConfig) -> ConfigUsed:
    return ConfigUsed(
        name=config.name, version=config.version, hash=config.config_hash, model_digest=config.model.digest
    )


def catalogue(*configs: GenerationConfig) -> ConfigCatalogue:
    return ConfigCatalogue(
        ConfigFile(name=each.name, channels={}, versions={each.version: each.model_dump()}) for each in configs
    )


def lines(*bodies: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(body).encode() for body in bodies) + b"\n\n"


def test_the_request_as_it_was_sent() -> None:
    other = {"tenant": "blue", "request_id": "r0", "prompt": "a cat"}
    ours = {"tenant": "blue", "request_id": "r1", "prompt": "a dog", "negative_prompt": "fur"}
    assert asked(lines(other, ours), result()) == Wish("a dog", "fur")
    assert asked(lines({"prompt": "a fox"}), result()) == Wish("a fox", "")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lines({"tenant": "red", "request_id": "r1", "prompt": "a cat"}), "no request in that file is blue/r1"),
        (lines({"request_id": "r1"}), "has a prompt"),
        (lines({"request_id": "r1", "prompt": 7}), "has a prompt"),
        (b"", "no request"),
        (b"{", "cannot be read"),
    ],
)
def test_no_request_of_this_result(data: bytes, words: str) -> None:
    with pytest.raises(CommandError, match=words) as raised:
        asked(data, result())
    assert raised.value.code == 2


def test_the_configuration_is_known_by_its_hash() -> None:
    ours, changed = config(), config(steps=9)
    assert config_of(used_of(ours), Wish("", ""), catalogue(ours)) == ours
    retired = config(retired=True)
    assert config_of(used_of(ours), Wish("", ""), catalogue(retired)) == retired
    assert config_of(used_of(ours), Wish("", "", ours), catalogue(changed)) == ours, "as the decision has it"


@pytest.mark.parametrize("known", [(), (config(steps=9),), (config(version=2),)])
def test_a_configuration_that_is_not_here(known: tuple[GenerationConfig, ...]) -> None:
    used = used_of(config())
    with pytest.raises(CommandError, match="set KILN_CONFIGS") as raised:
        config_of(used, Wish("", "", config(steps=9)), catalogue(*known))
    assert used.hash in str(raised.value)
    assert raised.value.code == 2

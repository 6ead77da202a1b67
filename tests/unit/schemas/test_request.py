from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.codec import decode_object, encode
from schemas.request import FORMS, SEED_MAX, GenerationRequest, first_problem

BODY: dict[str, Any] = {"request_id": "r1", "tenant": "alice", "prompt": "a kiln", "config": {"name": "sketch"}}


def problem(**changes: Any) -> tuple[str, str]:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not ...}
    with pytest.raises(ValidationError) as refused:
        GenerationRequest.model_validate(body)
    return first_problem(refused.value)


def test_what_a_request_is_without_being_told() -> None:
    request = GenerationRequest.model_validate(BODY)
    assert (request.seed, request.images, request.priority, request.deadline) == (None, 1, "standard", None)
    assert (request.negative_prompt, request.metadata, request.may_degrade) == ("", {}, False)


@pytest.mark.parametrize("seed", [0, 1, SEED_MAX])
def test_seeds_to_the_largest_exact_integer(seed: int) -> None:  # case DIF-11
    assert GenerationRequest.model_validate({**BODY, "seed": seed}).seed == seed


@pytest.mark.parametrize("seed", [-1, SEED_MAX + 1, 2**64, True, False, 1.0, "0", "0x1", [], 10**4000])
def test_seeds_that_are_none(seed: object) -> None:  # case DIF-11, ADM-10
    field, _ = problem(seed=seed)
    assert field == "seed"


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"stepz": 1}, "stepz", "unknown"),
        ({"stepz": 1, "prompt": ...}, "stepz", "unknown"),
        ({"config": {"name": "a", "versoin": 1}}, "config.versoin", "unknown"),
        ({"prompt": ...}, "prompt", "missing"),
        ({"config": {"name": "a", "version": 1, "channel": "stable"}}, "config.channel", "not both"),
        ({"config": "sketch"}, "config", 'send an object, such as {"name": "sketch"}'),
        ({"config": None}, "config", "send an object"),
        ({"priority": "high"}, "priority", "interactive"),
        ({"images": "2"}, "images", "send an integer"),
        ({"images": True}, "images", "send an integer"),
        ({"may_degrade": 1}, "may_degrade", "send true or false"),
        ({"metadata": {"a": None}}, "metadata.a", "send a string"),
        ({"metadata": []}, "metadata", "send an object"),
        ({"inputs": ["x"]}, "inputs", "it is reserved; leave it out"),
        ({"inputs": None}, "inputs", "it is reserved; leave it out"),
        ({"key": "no key!"}, "key", "send a string of 1 to 64 of the letters A-Z a-z 0-9 . _ -"),
        ({"tenant": "no/tenant"}, "tenant", "send a string of 1 to 64 of the letters A-Z a-z 0-9 . _ -"),
        ({"request_id": ""}, "request_id", "send a string of 1 to 128 characters without control characters"),
        ({"retry_of": "a\nb"}, "retry_of", "send a string of 1 to 128 characters without control characters"),
        ({"deadline": "2030-13-31T12:00:00Z"}, "deadline", "RFC 3339"),
        ({"deadline": "2030-01-31"}, "deadline", "RFC 3339"),
        ({"deadline": "2030-01-31T12:00:00"}, "deadline", "RFC 3339"),
        ({"deadline": "soon"}, "deadline", "RFC 3339"),
        ({"deadline": "1900000000"}, "deadline", "RFC 3339"),
        ({"deadline": 1_900_000_000}, "deadline", "RFC 3339"),
        ({"deadline": "nan"}, "deadline", "RFC 3339"),
    ],
)
def test_a_refusal_names_the_field(changes: dict[str, Any], field: str, sentence: str) -> None:
    named, message = problem(**changes)
    assert named == field
    assert sentence in message


def test_no_pattern_comes_before_a_producer_as_it_is() -> None:
    assert set(patterns(GenerationRequest.model_json_schema())) == set(FORMS)


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else []:
        yield from patterns(part)


@pytest.mark.parametrize(
    "deadline", ["2030-01-31T12:00:00Z", "2030-01-31T12:00:00.5+05:30", "2030-01-31 12:00:00-00:00"]
)
def test_a_deadline_has_its_offset(deadline: str) -> None:
    request = GenerationRequest.model_validate({**BODY, "deadline": deadline})
    assert request.deadline is not None
    assert request.deadline.utcoffset() is not None


def test_a_request_of_ours_is_read_as_it_was_written() -> None:
    request = GenerationRequest.model_validate(
        {**BODY, "seed": 0, "deadline": "2030-01-31T12:00:00Z", "metadata": {"k": "v"}, "prompt": "кот 🏺"}
    )
    assert GenerationRequest.model_validate(decode_object(encode(request))) == request

"""What pydantic says of a wrong event may come into a log, and an event may hold a prompt."""

import json
from collections.abc import Callable
from traceback import format_exception

import pytest
from pydantic import BaseModel, ValidationError

from schemas.decision import decode_decision
from schemas.errors import Undecodable
from schemas.observation import decode_observation
from schemas.outcome import decode_outcome
from schemas.request import GenerationRequest
from schemas.work import WorkItem, decode_work

CANARY = "zyxwvutcanary"


BODY = {
    "prompt": [CANARY],
    "work": [CANARY],
    "tenant": {"a": CANARY},
    "schema_version": CANARY,
    "message": [CANARY],
}


@pytest.mark.parametrize("event", [GenerationRequest, WorkItem])
def test_an_error_does_not_say_what_was_sent(event: type[BaseModel]) -> None:
    with pytest.raises(ValidationError) as read:
        event.model_validate(BODY)
    with pytest.raises(ValidationError) as parsed:
        event.model_validate_json(json.dumps(BODY))
    for error in (read.value, parsed.value):
        assert CANARY not in str(error)
        assert CANARY not in repr(error)


@pytest.mark.parametrize("read", [decode_observation, decode_outcome, decode_work])
def test_an_event_that_cannot_be_read_does_not_come_into_a_traceback(read: Callable[[bytes], BaseModel]) -> None:
    with pytest.raises(Undecodable) as refused:
        read(json.dumps({**BODY, "schema_version": 1}).encode())
    assert CANARY not in "".join(format_exception(refused.value))


@pytest.mark.parametrize("data", [json.dumps(BODY), f'{{"number":"{CANARY}","work":{{"prompt":{CANARY}}}}}'])
def test_a_decision_that_cannot_be_read_does_not_come_into_a_traceback(data: str) -> None:
    with pytest.raises(Undecodable) as refused:
        decode_decision(data.encode())
    assert CANARY not in "".join(format_exception(refused.value))

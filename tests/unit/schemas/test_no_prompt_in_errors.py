"""What pydantic says of a wrong event may come into a log, and an event may hold a prompt."""

import json

import pytest
from pydantic import BaseModel, ValidationError

from schemas.decision import Decision
from schemas.request import GenerationRequest
from schemas.work import WorkItem

CANARY = "zyxwvutcanary"


@pytest.mark.parametrize("event", [GenerationRequest, WorkItem, Decision])
def test_an_error_does_not_say_what_was_sent(event: type[BaseModel]) -> None:
    body = {
        "prompt": [CANARY],
        "work": [CANARY],
        "tenant": {"a": CANARY},
        "schema_version": CANARY,
        "message": [CANARY],
    }
    with pytest.raises(ValidationError) as read:
        event.model_validate(body)
    with pytest.raises(ValidationError) as parsed:
        event.model_validate_json(json.dumps(body))
    for error in (read.value, parsed.value):
        assert CANARY not in str(error)
        assert CANARY not in repr(error)

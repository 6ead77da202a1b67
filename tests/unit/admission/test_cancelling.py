"""A tenant takes requests of its own back."""

from dataclasses import replace
from typing import Any

import pytest

from admission.verdict import Repeat, SendHome, TakeBack
from schemas.names import request_name
from tests.unit.admission.scene import HOME, NOW_MS, TENANT, Partition, accepted, arrival, dead, rejected, request

NAME = request_name(TENANT, "r1")


def cancel(**changes: Any) -> dict[str, Any]:
    return {"tenant": TENANT, "request_id": "r1", "cancel": True, **changes}


def test_what_is_outstanding_is_taken_back() -> None:
    partition = Partition()
    accepted(partition.send(request()))
    assert partition.send(cancel(), key=TENANT.encode()) == TakeBack(NAME, NOW_MS)


def test_what_is_not_there_has_nothing_to_end() -> None:
    partition = Partition()
    assert partition.send(cancel()) == TakeBack(None, NOW_MS)
    partition.send(request(seed=-1))
    assert partition.send(cancel()) == TakeBack(None, NOW_MS), "it was refused"
    job = accepted(partition.send(request("done"))).job_id
    partition.finish(job)
    assert partition.send(cancel(request_id="done")) == TakeBack(None, NOW_MS)


def test_what_is_cancelled_already_is_not_written_again() -> None:
    partition = Partition()
    accepted(partition.send(request()))
    partition.world = replace(partition.world, cancelled={NAME: NOW_MS})
    assert partition.send(cancel()) == TakeBack(None, NOW_MS)
    partition.world = replace(partition.world, cancelled={NAME: NOW_MS - 1})
    assert partition.send(cancel()) == TakeBack(NAME, NOW_MS), "that one was of a former request"


def test_a_cancel_takes_no_name_and_costs_nothing() -> None:
    partition = Partition()
    partition.send(cancel())
    before = list(partition.state.accounts())
    assert before == []
    accepted(partition.send(request()))
    partition.send(cancel())
    assert isinstance(partition.send(request()), Repeat)
    partition.log()
    state, again = partition.take_over()
    assert (state.decided, again) == (1, [])
    state.check_integrity()


def test_a_cancel_is_sent_home_behind_its_request() -> None:
    partition = Partition()
    assert partition.decide(arrival(cancel(), 0, partition=HOME + 1)) == SendHome(HOME, NOW_MS)


@pytest.mark.parametrize(
    ("body", "key", "sentence"),
    [
        (cancel(prompt="a kiln"), None, "the field 'prompt' is unknown"),
        (cancel(schema_version=2), None, "the field 'schema_version' is invalid"),
        (cancel(schema_version=True), None, "the field 'schema_version' is invalid"),
        (cancel(), b"ivan", "the record's key differs from the tenant"),
    ],
)
def test_what_is_not_exactly_a_cancel_is_a_dead_letter(body: dict[str, Any], key: bytes | None, sentence: str) -> None:
    partition = Partition()
    accepted(partition.send(request()))
    letter = dead(partition.send(body, key=key))
    assert (letter.reason, sentence in letter.message) == ("malformed", True), letter.message


@pytest.mark.parametrize("cancel", [False, 1, "true", None])
def test_another_word_than_true_is_a_field_that_no_request_has(cancel: object) -> None:
    result = rejected(Partition().send(request(cancel=cancel)))
    assert (result.code, result.field) == ("invalid_request", "cancel")


def test_another_tenant_reaches_only_its_own() -> None:
    """Ivan's home is Alice's, too."""
    partition = Partition()
    accepted(partition.send(request()))
    assert partition.send(cancel(tenant="ivan")) == TakeBack(None, NOW_MS)

"""What a record may be beside its body: its headers, its size, and its key."""

import json

import pytest

from admission.decide import decide
from tests.unit.admission.scene import NOW_MS, TENANT, accepted, arrival, fresh_state, make_world, rejected, request

WORLD = make_world()


# case ADM-14, KQ-17
@pytest.mark.parametrize(
    "headers",
    [
        [("h", b"x" * 900_000)],
        [("h", b"")] * 10_000,
        [("h" * 20_000, None)],
    ],
    ids=["large", "many", "a long name"],
)
def test_headers_beyond_the_limits_are_refused(headers: list[tuple[str, bytes | None]]) -> None:
    result = rejected(decide(arrival(request(), headers=headers), fresh_state(), WORLD, NOW_MS))
    assert (result.code, result.field) == ("too_large", "headers")


def test_headers_within_the_limits_are_carried_no_further() -> None:  # case ADM-14
    headers = [("h", b"1"), ("h", b"2"), ("none", None), ("", b"")]
    verdict = decide(arrival(request(), headers=headers), fresh_state(), WORLD, NOW_MS)
    assert {name for name, _ in accepted(verdict).headers()} == {"kiln-job", "kiln-deadline-ms", "kiln-schema"}


def test_a_record_is_measured_with_its_key_and_headers() -> None:  # case KQ-17
    world = make_world(record_bytes_max=1024)
    value = json.dumps(request(metadata={"k": "v" * 500})).encode()
    record = arrival(value, key=b"alice", headers=[("h", b"x" * (1024 - len(value) - 6))])
    assert record.record_bytes == 1024
    accepted(decide(record, fresh_state(), world, NOW_MS))
    longer = arrival(value, key=b"alice", headers=[("h", b"x" * (1024 - len(value) - 5))])
    assert rejected(decide(longer, fresh_state(), world, NOW_MS)).code == "too_large"


def test_the_key_is_the_tenant_or_nothing() -> None:
    accepted(decide(arrival(request(), key=TENANT.encode()), fresh_state(), WORLD, NOW_MS))
    for key in (b"ivan", b"", b"\xff"):
        result = rejected(decide(arrival(request(), key=key), fresh_state(), WORLD, NOW_MS))
        assert (result.code, result.field) == ("invalid_request", "key")

"""The whole decision: in which order, and what becomes of hostile payloads."""

import json
from typing import Any
from uuid import UUID

import pytest

from admission.decide import decide
from admission.verdict import DeadLetter, Repeat, SendHome
from schemas.names import job_id, seed_of
from schemas.request import SEED_MAX
from tests.unit.admission.scene import (
    BIRTH,
    HOME,
    NOW_MS,
    TENANT,
    Partition,
    accepted,
    arrival,
    dead,
    decided,
    fresh_state,
    make_world,
    rejected,
    request,
)

WORLD = make_world()


def body(**changes: Any) -> bytes:
    return json.dumps(request(**changes)).encode()


NEST: Any = []
for _ in range(50):
    NEST = [NEST]

# A name can be read beside the flaw: refused under it. (value, code, field)
REFUSED = {
    "another schema version": (body(schema_version=2), "unsupported_schema", "schema_version"),  # case KQ-01
    "version zero": (body(schema_version=0), "unsupported_schema", "schema_version"),
    "version true": (body(schema_version=True), "unsupported_schema", "schema_version"),
    "version 1.0": (body(schema_version=1.0), "unsupported_schema", "schema_version"),
    "version as text": (body(schema_version="1"), "unsupported_schema", "schema_version"),
    "version deep down": (body(schema_version=NEST), "unsupported_schema", "schema_version"),
    "a seed deep down": (body(seed=NEST), "invalid_seed", "seed"),
    "a field unknown": (body(stepz=4), "invalid_request", "stepz"),
    "no prompt": (body(prompt=...), "invalid_request", "prompt"),
    "an empty prompt": (body(prompt=""), "invalid_request", "prompt"),
    "a prompt of numbers": (body(prompt=5), "invalid_request", "prompt"),
    "no config": (body(config=...), "invalid_request", "config"),
    "inputs are reserved": (body(inputs=[{}]), "invalid_request", "inputs"),
    "another priority": (body(priority="urgent"), "invalid_request", "priority"),
    # case DIF-11
    "seed below zero": (body(seed=-1), "invalid_seed", "seed"),
    "seed of 2**64": (body(seed=2**64), "invalid_seed", "seed"),
    "seed one too far": (body(seed=SEED_MAX + 1), "invalid_seed", "seed"),
    "seed of the last picture too far": (body(seed=SEED_MAX, images=2), "invalid_seed", "seed"),
    # case ADM-10
    "seed true": (body(seed=True), "invalid_seed", "seed"),
    "seed 1.0": (body(seed=1.0), "invalid_seed", "seed"),
    "seed as text": (body(seed="1"), "invalid_seed", "seed"),
    "NaN": (body(seed=float("nan")), "invalid_request", "body"),
    "Infinity": (body(seed=float("-inf")), "invalid_request", "body"),
    "1e999": (body(seed=5).replace(b'"seed": 5', b'"seed": 1e999'), "invalid_request", "body"),
    "a key twice": (body(seed=5).replace(b"{", b'{"seed": 4,', 1), "invalid_request", "body"),
    # case ADM-08
    "seed of 5000 digits": (body(seed=5).replace(b'"seed": 5', b'"seed": ' + b"9" * 5000), "invalid_request", "body"),
    "seed of 600 digits": (body(seed=5).replace(b'"seed": 5', b'"seed": ' + b"9" * 600), "invalid_seed", "seed"),
    "a lone surrogate in the prompt": (body(prompt="\ud800"), "invalid_request", "body"),
    # case ADM-07
    "one grapheme of 10,000 code points": (body(prompt="a" + "\u0301" * 9_999), "prompt_too_long", "prompt"),
    "one code point too many": (body(prompt="a" * 2001), "prompt_too_long", "prompt"),
    "bytes, not code points": (body(prompt="\U0001f3fa" * 2000 + "a"), "prompt_too_long", "prompt"),
    "the negative prompt too": (body(negative_prompt="a" * 2001), "prompt_too_long", "negative_prompt"),
    "metadata of many entries": (
        body(metadata={str(n): "" for n in range(17)}),
        "invalid_request",
        "metadata",
    ),
    "a metadata key of 65 bytes": (body(metadata={"k" * 65: ""}), "invalid_request", "metadata"),
    "a metadata value of 513 bytes": (body(metadata={"k": "v" * 513}), "invalid_request", "metadata"),
    "metadata of numbers": (body(metadata={"k": 1}), "invalid_request", "metadata.k"),
    "no pictures": (body(images=0), "invalid_request", "images"),
    "more pictures than any request may have": (body(images=17), "invalid_request", "images"),
    "more pictures than the config allows": (body(images=5), "invalid_request", "images"),
    # case ADM-11
    "a config named as a path": (body(config={"name": "../../etc/passwd"}), "unknown_config", "config"),
    "a config nobody knows": (body(config={"name": "oil"}), "unknown_config", "config"),
    "a channel nobody knows": (body(config={"name": "sketch", "channel": "canary"}), "unknown_config", "config"),
    "a version that is not there": (
        body(config={"name": "sketch", "version": 9}),
        "config_version_mismatch",
        "config",
    ),
    "a retired version": (body(config={"name": "sketch", "version": 2}), "config_retired", "config"),
    "a config larger than the GPU": (body(config={"name": "huge"}), "exceeds_vram", "config"),
    "a config of a pool nobody declared": (body(config={"name": "stray"}), "pool_unavailable", "config"),
    "a deadline in the past": (body(deadline="2020-01-01T00:00:00Z"), "deadline_infeasible", "deadline"),
    "a deadline of the year 1": (body(deadline="0001-01-01T00:00:00+14:00"), "deadline_infeasible", "deadline"),
    "a deadline without an offset": (body(deadline="2030-01-01T00:00:00"), "invalid_request", "deadline"),
    "a deadline as a Unix time": (body(deadline="1900000000"), "invalid_request", "deadline"),
    "a deadline as a number": (body(deadline=1_900_000_000), "invalid_request", "deadline"),
}

# No name can be read.
MALFORMED = {
    "a tombstone": None,  # case FST-04
    "nothing": b"",
    "random bytes": bytes(range(256)),  # case KQ-01
    "truncated": body()[:-20],
    "another encoding": body().decode().encode("utf-16"),
    "an array": b"[]",
    "a string": b'"request"',
    "null": b"null",
    "100,000 brackets": b"[" * 100_000,  # case ADM-08
    "100,000 objects": b'{"a":' * 100_000,
    "a number of 5000 digits": b"9" * 5000,
    "no tenant": body(tenant=...),
    "no request id": body(request_id=...),
    "a tenant that is a number": body(tenant=5),
    "a tenant with a slash": body(tenant="a/b"),
    "a tenant that is a path": body(tenant="../../b"),  # case ADM-11
    "a tenant with NUL": body(tenant="a\0"),
    "a tenant with a line feed": body(tenant="a\n"),
    "a long tenant": body(tenant="a" * 65),
    "two tenants": b'{"tenant":"alice","tenant":"ivan","request_id":"r1"}',  # case ADM-10
    "an empty request id": body(request_id=""),
    "a request id with NUL": body(request_id="a\0b"),
    "a long request id": body(request_id="r" * 1100),
    "a request id of numbers": body(request_id=5),
    "a lone surrogate in the name": b'{"tenant":"alice","request_id":"\\ud800"}',
}


@pytest.mark.parametrize(("value", "code", "field"), REFUSED.values(), ids=REFUSED)
def test_a_named_request_that_may_not_enter_is_refused_under_its_name(value: bytes, code: str, field: str) -> None:
    result = rejected(decide(arrival(value), fresh_state(), WORLD, NOW_MS))
    assert (result.code, result.field) == (code, field)
    assert (result.tenant, result.request_id) == (TENANT, "r1")
    assert result.message


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
def test_a_record_without_a_readable_name_is_a_dead_letter(value: bytes | None) -> None:
    letter = dead(decide(arrival(value), fresh_state(), WORLD, NOW_MS))
    assert letter.reason == "malformed"
    assert letter.first_offset is None
    assert letter.message


@pytest.mark.parametrize("value", [value for value, _, _ in REFUSED.values()] + list(MALFORMED.values()))
def test_a_hostile_record_does_not_hold_up_its_neighbour(value: bytes | None) -> None:
    partition = Partition()
    partition.send(value)
    accepted(partition.send(request("next")))
    assert partition.state.next == 2
    partition.state.check_integrity()


@pytest.mark.parametrize(
    "request_id",
    ["../../tenant-b/x", "/etc", "%2e%2e", "a//b", "\\", "r" * 128, "\U0001f3fa", "e\u0301", "  ", "a/b/c"],
)
def test_a_request_id_may_be_any_text_because_it_is_never_part_of_a_path(request_id: str) -> None:  # case ADM-11
    work = accepted(decide(arrival(request(request_id)), fresh_state(), WORLD, NOW_MS))
    assert work.request_id == request_id
    assert str(UUID(work.job_id)) == work.job_id


def test_what_is_quoted_in_a_refusal_is_short() -> None:
    field = "x\u0001" * 100_000
    result = rejected(decide(arrival({**request(), field: 1}), fresh_state(), WORLD, NOW_MS))
    assert len(result.field or "") <= 128
    assert len(result.message) <= 512


def test_a_request_on_another_partition_goes_home_before_it_is_judged() -> None:
    for value in (request(), request(seed=-1), request(config={"name": "oil"})):
        assert decide(arrival(value, partition=HOME + 1), fresh_state(), WORLD, NOW_MS) == SendHome(HOME, NOW_MS)


def test_a_header_that_claims_to_be_home_is_not_believed() -> None:
    record = arrival(request(), partition=HOME + 1, headers=[("kiln-home", b"1")])
    assert isinstance(decide(record, fresh_state(), WORLD, NOW_MS), SendHome)


# Repeat and conflict -------------------------------------------------------------------------------------------------


def test_the_same_request_again_is_silent_and_free() -> None:
    partition = Partition()
    first = accepted(partition.send(request()))
    for _ in range(20):
        assert partition.send(request()) == Repeat(first.job_id, NOW_MS)
    account = partition.state.account(TENANT)
    assert account is not None
    assert (account.accepted, account.tokens) == (1, 4.0)
    assert len(partition.decisions) == 1


def test_a_retry_that_was_serialised_again_is_a_repeat() -> None:
    partition = Partition()
    partition.send(json.dumps(request(prompt="кот é"), indent=2).encode())
    shuffled = dict(reversed(request(prompt="кот é").items()))
    assert isinstance(partition.send(json.dumps(shuffled, ensure_ascii=False).encode()), Repeat)


def test_another_payload_under_a_known_name_is_a_dead_letter_that_names_the_first() -> None:
    partition = Partition()
    partition.send(request("other"))
    partition.send(request())
    letter = dead(partition.send(request(prompt="something else")))
    assert (letter.reason, letter.first_offset) == ("conflicting_duplicate", 1)
    assert isinstance(partition.send(request()), Repeat)


@pytest.mark.parametrize("value", [body(seed=-1), body(seed=float("nan")), body(schema_version=3)])
def test_an_invalid_record_sent_twice_is_refused_once(value: bytes) -> None:
    partition = Partition()
    rejected(partition.send(value))
    assert isinstance(partition.send(value), Repeat)


def test_a_rejection_is_final() -> None:
    partition = Partition()
    for n in range(5):
        partition.send(request(f"burst-{n}"))
    assert rejected(partition.send(request("late"))).code == "rate_limited"
    minute_ms = 60_000
    assert isinstance(partition.send(request("late"), at_ms=NOW_MS + minute_ms), Repeat)
    assert dead(partition.send(request("late", seed=1), at_ms=NOW_MS + minute_ms)).reason == "conflicting_duplicate"


def test_the_same_request_id_of_two_tenants_is_two_requests() -> None:
    partition = Partition()
    one = accepted(partition.send(request()))
    two = accepted(partition.send(request(tenant="ivan")))
    assert one.job_id != two.job_id


# What is decided -----------------------------------------------------------------------------------------------------


def test_the_work_item_is_complete() -> None:
    value = request(seed=7, images=3, priority="bulk", retry_of="r0", metadata={"album": "7"}, negative_prompt="blur")
    record = arrival(value, 41, at_ms=NOW_MS - 5)
    verdict = decide(record, fresh_state(), WORLD, NOW_MS)
    decision, work = decided(verdict), accepted(verdict)
    config = WORLD.configs.files["sketch"].versions[1]
    assert work.job_id == decision.job_id == job_id(BIRTH, TENANT, "r1", HOME, 41)
    assert (work.seed, work.images, work.lane, work.retry_of) == (7, 3, "bulk", "r0")
    assert (work.prompt, work.negative_prompt, work.metadata) == ("a kiln at dusk", "blur", {"album": "7"})
    assert (work.config, work.config_hash) == (config, config.config_hash)
    assert work.results_partition == HOME
    assert work.price_gpu_seconds == decision.price_gpu_seconds == 6.0
    assert (decision.number, decision.offset, decision.appended_ms) == (1, 41, NOW_MS - 5)
    assert decision.deadline_ms == NOW_MS + 86_400_000 == work.deadline.timestamp() * 1000
    assert dict(work.headers())["kiln-deadline-ms"] == str(decision.deadline_ms).encode()
    assert decision.route is not None
    assert (decision.route.pool, decision.route.lane) == ("default", "bulk")
    assert decision.bucket_after == 4.0


def test_zero_is_a_seed_like_any_other() -> None:  # case DIF-11
    assert accepted(decide(arrival(request(seed=0)), fresh_state(), WORLD, NOW_MS)).seed == 0
    assert accepted(decide(arrival(request(seed=SEED_MAX)), fresh_state(), WORLD, NOW_MS)).seed == SEED_MAX


@pytest.mark.parametrize("seed", [..., None])
def test_an_absent_seed_is_drawn_from_the_job(seed: object) -> None:
    work = accepted(decide(arrival(request(seed=seed)), fresh_state(), WORLD, NOW_MS))
    assert work.seed == seed_of(work.job_id)


def test_a_drawn_seed_leaves_room_for_the_pictures_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admission.ending.seed_of", lambda job: SEED_MAX)
    assert accepted(decide(arrival(request(images=3)), fresh_state(), WORLD, NOW_MS)).seed == SEED_MAX - 2


def test_a_rejection_returns_what_its_sender_needs_to_match_it() -> None:
    value = request(config={"name": "oil"}, metadata={"album": "7"}, retry_of="r0")
    result = rejected(decide(arrival(value), fresh_state(), WORLD, NOW_MS))
    assert (result.metadata, result.retry_of) == ({"album": "7"}, "r0")
    too_much = rejected(decide(arrival(request(metadata={"k": "v" * 9000})), fresh_state(), WORLD, NOW_MS))
    assert too_much.metadata == {}


def test_deciding_changes_nothing() -> None:
    partition = Partition()
    before = partition.state.cursor()
    values: list[dict[str, Any] | bytes] = [request(), request(seed=-1), b"", request(config={"name": "oil"})]
    for value in values:
        decide(arrival(value), partition.state, partition.world, NOW_MS)
    assert partition.state.cursor() == before
    assert len(partition.state.names) == 0
    assert len(partition.state.drain_changes()) == 1


def test_a_dead_letter_of_the_host_moves_the_cursor_too() -> None:  # case AIO-26
    state = fresh_state()
    state.apply(arrival(None, 3), DeadLetter("malformed", "the record is larger than any fetch"))
    assert state.next == 4

"""What a hostile producer can put into a record: each ends as a rejection or a dead letter, and the next is served."""

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from admission.arrival import Arrival
from admission.decide import decide
from admission.stages.decode import decode
from admission.verdict import DeadLetter, Decided, Verdict
from schemas.codec import NESTED_MAX, encode
from schemas.composed import decision_record
from schemas.dead_letter import dead_letter_headers
from schemas.result import parse_result
from schemas.topics import RECORD_BYTES_MAX, REQUEST_BYTES_MAX
from tests.unit.admission.scene import (
    NOW_MS,
    TENANT,
    Partition,
    accepted,
    arrival,
    dead,
    fresh_state,
    make_world,
    rejected,
    request,
)

WORLD = make_world()
DEPTH_OF_A_FIELD = 1  # the body itself is one level


def body(**changes: Any) -> bytes:
    return json.dumps(request(**changes)).encode()


def spliced(field: str, text: bytes) -> bytes:
    """A request whose `field` is written as `text`, whatever that is."""
    return body(**{field: ...})[:-1] + b', "' + field.encode() + b'": ' + text + b"}"


def nested(levels: int, opened: bytes = b"[", closed: bytes = b"]") -> bytes:
    return opened * levels + (b"1" if closed == b"}" else b"") + closed * levels


def headed(*headers: tuple[str, bytes | None]) -> Arrival:
    return arrival(body(), headers=headers)


# What is sent -> how it ends: a code and the field it names, or a dead letter. ------------------------------------
CASES: dict[str, tuple[Arrival, str, str | None]] = {
    # Case ADM-08
    "a seed of 5,000 digits": (arrival(spliced("seed", b"9" * 5000)), "invalid_request", "body"),
    "a seed of -5,000 digits": (arrival(spliced("seed", b"-" + b"9" * 5000)), "invalid_request", "body"),
    "a version of 5,000 digits": (arrival(spliced("schema_version", b"1" * 5000)), "invalid_request", "body"),
    "a seed of 600 digits": (arrival(spliced("seed", b"9" * 600)), "invalid_seed", "seed"),
    "a body of 5,000 digits": (arrival(b"9" * 5000), "malformed", None),
    "a fraction of 900,000 digits": (arrival(spliced("seed", b"0." + b"9" * 900_000)), "invalid_seed", "seed"),
    "an exponent of 900,000 digits": (arrival(spliced("seed", b"1e" + b"9" * 900_000)), "invalid_request", "body"),
    "100,000 brackets": (arrival(b"[" * 100_000), "malformed", None),
    "100,000 brackets that close": (arrival(nested(100_000)), "malformed", None),
    "100,000 brackets in a field": (arrival(spliced("inputs", nested(100_000))), "malformed", None),
    "100,000 objects": (arrival(b'{"a":' * 100_000), "malformed", None),
    "as many levels as are read": (
        arrival(spliced("inputs", nested(NESTED_MAX - DEPTH_OF_A_FIELD))),
        "invalid_request",
        "inputs",
    ),
    "one level more": (arrival(spliced("inputs", nested(NESTED_MAX - DEPTH_OF_A_FIELD + 1))), "malformed", None),
    "one level more of objects": (
        arrival(spliced("metadata", nested(NESTED_MAX - DEPTH_OF_A_FIELD + 1, b'{"a":', b"}"))),
        "malformed",
        None,
    ),
    "one level more beside NaN": (
        arrival(spliced("inputs", b"[NaN, " + nested(NESTED_MAX - DEPTH_OF_A_FIELD) + b"]")),
        "malformed",
        None,
    ),
    "5,000 digits in a header": (headed(("seed", b"9" * 5000), ("nest", b"[" * 100_000)), "too_large", "headers"),
    # Case ADM-10
    "NaN": (arrival(spliced("seed", b"NaN")), "invalid_request", "body"),
    "Infinity": (arrival(spliced("seed", b"Infinity")), "invalid_request", "body"),
    "-Infinity": (arrival(spliced("seed", b"-Infinity")), "invalid_request", "body"),
    "a number out of range": (arrival(spliced("seed", b"1e999")), "invalid_request", "body"),
    "a key twice": (arrival(spliced("seed", b'1, "seed": 2')), "invalid_request", "body"),
    "a key twice, once escaped": (arrival(spliced("seed", b'1, "\\u0073eed": 2')), "invalid_request", "body"),
    "a key twice deep down": (arrival(spliced("metadata", b'{"a":"1","a":"2"}')), "invalid_request", "body"),
    "two tenants": (arrival(spliced("tenant", b'"alice", "tenant": "ivan"')), "malformed", None),
    "two request ids": (arrival(spliced("request_id", b'"r1", "request_id": "r1"')), "malformed", None),
    "true for 1 as version": (arrival(body(schema_version=True)), "unsupported_schema", "schema_version"),
    "true for 1 as seed": (arrival(body(seed=True)), "invalid_seed", "seed"),
    "true for 1 as images": (arrival(body(images=True)), "invalid_request", "images"),
    "true for 1 as config version": (
        arrival(body(config={"name": "sketch", "version": True})),
        "invalid_request",
        "config.version",
    ),
    "1 for true": (arrival(body(may_degrade=1)), "invalid_request", "may_degrade"),
    "1.0 for 1": (arrival(body(images=1.0)), "invalid_request", "images"),
    # Unicode: case ADM-07
    "a lone surrogate in the prompt": (arrival(body(prompt="\ud800")), "invalid_request", "body"),
    "a lone surrogate in a key": (arrival(body(**{"\udfff": 1})), "invalid_request", "body"),
    "a lone surrogate in the request id": (arrival(body(request_id="\ud800")), "malformed", None),
    "a surrogate in bytes": (arrival(spliced("prompt", b'"\xed\xa0\x80"')), "malformed", None),
    "an overlong slash": (arrival(spliced("prompt", b'"\xc0\xaf"')), "malformed", None),
    "UTF-16": (arrival(body().decode().encode("utf-16")), "malformed", None),
    "a zero-width flood": (arrival(body(prompt="a" + "\u200b" * 100_000)), "prompt_too_long", "prompt"),
    "a joiner flood": (arrival(body(prompt="\U0001f468\u200d" * 50_000)), "prompt_too_long", "prompt"),
    "a combining flood": (arrival(body(prompt="a" + "\u0301" * 100_000)), "prompt_too_long", "prompt"),
    "a combining flood in the negative": (
        arrival(body(negative_prompt="a" + "\u0489" * 100_000)),
        "prompt_too_long",
        "negative_prompt",
    ),
    "a zero-width flood within the limit": (arrival(body(prompt="a" + "\u200b" * 1000)), "invalid_request", "prompt"),
    "a combining flood within the limit": (arrival(body(prompt="a" + "\u0301" * 1000)), "invalid_request", "prompt"),
    "a mixed flood within the limit": (
        arrival(body(negative_prompt="a" + "\u0301\u200b\u0489\ufe0f" * 250)),
        "invalid_request",
        "negative_prompt",
    ),
    "controls": (arrival(body(prompt="a" + "\x07" * 1000)), "invalid_request", "prompt"),
    "nothing but zero-width characters": (
        arrival(body(prompt="\u200b\u200d\u2060\ufeff")),
        "invalid_request",
        "prompt",
    ),
    "nothing but marks": (arrival(body(prompt="\u0301\u0489")), "invalid_request", "prompt"),
    "nothing but blanks": (arrival(body(prompt=" \t\u3000\u00a0")), "invalid_request", "prompt"),
    "nothing but fillers": (arrival(body(prompt="\u3164\u2800\u115f")), "invalid_request", "prompt"),
    "a flood of metadata": (arrival(body(metadata={"a": "\u200b" * 100_000})), "invalid_request", "metadata"),
    "NUL in the prompt": (arrival(body(prompt="a\0b")), "invalid_request", "prompt"),
    "NUL in the negative prompt": (arrival(body(negative_prompt="\0")), "invalid_request", "negative_prompt"),
    "NUL in a key of metadata": (arrival(body(metadata={"a\0": "b"})), "invalid_request", "metadata"),
    "NUL in a value of metadata": (arrival(body(metadata={"a": "b\0"})), "invalid_request", "metadata"),
    "NUL in the request id": (arrival(body(request_id="a\0")), "malformed", None),
    "NUL in the tenant": (arrival(body(tenant="alice\0")), "malformed", None),
    "NUL in retry_of": (arrival(body(retry_of="a\0")), "invalid_request", "retry_of"),
    "a raw NUL": (arrival(body().replace(b"kiln", b"ki\0n")), "malformed", None),
    "NULs only": (arrival(b"\0" * 100_000), "malformed", None),
    # Sizes: cases ADM-14, KQ-17
    "900 kB of one header": (headed(("h", b"x" * 900_000)), "too_large", "headers"),
    "a header name of 900 kB": (headed(("h" * 900_000, None)), "too_large", "headers"),
    "10,000 headers": (headed(*[("h", b"")] * 10_000), "too_large", "headers"),
    "10,000 null headers without a name": (headed(*[("", None)] * 10_000), "too_large", "headers"),
    "a record over the limit": (
        arrival(body(), headers=[("h", b"x" * 1000)] * 16, key=b"alice"),
        "too_large",
        "body",
    ),
    "a value over the topic's limit": (arrival(body().ljust(REQUEST_BYTES_MAX + 1)), "malformed", None),
    "a value that unfolded to 8 MiB": (arrival(body(prompt="a" * (8 << 20))), "malformed", None),
    "a prompt of 900 kB": (arrival(body(prompt="a" * 900_000)), "prompt_too_long", "prompt"),
    "100,000 unknown fields": (arrival(body(**{str(n): n for n in range(100_000)})), "malformed", None),
    "60,000 unknown fields": (arrival(body(**{str(n): n for n in range(60_000)})), "invalid_request", "body"),
    "60,000 unknown fields of config": (
        arrival(body(config={str(n): n for n in range(60_000)})),
        "invalid_request",
        "config",
    ),
    "one unknown field": (arrival(body(stepz=1)), "invalid_request", "stepz"),
    "60,000 entries of metadata": (
        arrival(body(metadata={str(n): n for n in range(60_000)})),
        "invalid_request",
        "metadata",
    ),
    "a field's name of 900 kB": (arrival(body(**{"f" * 900_000: 1})), "invalid_request", "f" * 127 + "…"),
    # Null values, wrong versions, foreign keys: cases FST-04, KQ-01
    "a null value": (arrival(None), "malformed", None),
    "a null value with a key": (arrival(None, key=b"alice"), "malformed", None),
    "an empty value": (arrival(b""), "malformed", None),
    "null as the body": (arrival(b"null"), "malformed", None),
    "null as the prompt": (arrival(body(prompt=None)), "invalid_request", "prompt"),
    "null as the tenant": (arrival(body(tenant=None)), "malformed", None),
    "version 0": (arrival(body(schema_version=0)), "unsupported_schema", "schema_version"),
    "version 2": (arrival(body(schema_version=2)), "unsupported_schema", "schema_version"),
    "version -1": (arrival(body(schema_version=-1)), "unsupported_schema", "schema_version"),
    "version null": (arrival(body(schema_version=None)), "unsupported_schema", "schema_version"),
    "version 2**64": (arrival(body(schema_version=2**64)), "unsupported_schema", "schema_version"),
    "another tenant's key": (arrival(body(), key=b"ivan"), "invalid_request", "key"),
    "a key in another case": (arrival(body(), key=b"Alice"), "invalid_request", "key"),
    "an empty key": (arrival(body(), key=b""), "invalid_request", "key"),
    "a key that is no text": (arrival(body(), key=b"\xff\xfe\0"), "invalid_request", "key"),
    "a key of 900 kB": (arrival(body(), key=b"alice" * 180_000), "invalid_request", "key"),
    # Case ADM-11
    "a request id that is a path beside a flaw": (
        arrival(body(request_id="../../tenant-b/x", seed=-1)),
        "invalid_seed",
        "seed",
    ),
    "a tenant that is a path": (arrival(body(tenant="../alice")), "malformed", None),
}


def world_of(name: str) -> Any:
    return make_world(record_bytes_max=4096) if name == "a record over the limit" else WORLD


@pytest.mark.parametrize("name", CASES)
def test_it_ends_as_a_rejection_or_a_dead_letter(name: str) -> None:
    record, code, field = CASES[name]
    verdict = decide(record, fresh_state(), world_of(name), NOW_MS)
    if code == "malformed":
        assert dead(verdict).reason == "malformed"
    else:
        result = rejected(verdict)
        assert (result.code, result.field, result.tenant) == (code, field, TENANT)
    assert 0 < written_bytes(verdict) < 10_000, "what we say of it is small, however large it was"


def written_bytes(verdict: Verdict) -> int:
    """The bytes of what is said of it, read back by the readers of those topics."""
    if isinstance(verdict, Decided):
        assert verdict.result is not None
        event = encode(verdict.result)
        assert parse_result(event) == verdict.result
        return len(event) + len(decision_record(verdict.decision))
    assert isinstance(verdict, DeadLetter)
    headers = dead_letter_headers(verdict.reason, verdict.message, "kiln.requests", 0, 0)
    return sum(len(name) + len(value) for name, value in headers)


def test_the_next_record_is_served_and_memory_stays_flat() -> None:
    """All of them, again and again through one partition: what one leaves behind is at most its name."""
    records = [CASES[name][0] for name in CASES if name != "a record over the limit"]

    def through(partition: Partition, rounds: int) -> int:
        for _ in range(rounds):
            for record in records:
                partition.send(record.value, key=record.key, headers=record.headers)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    partition = Partition()
    tracemalloc.start()
    try:
        before = through(partition, 1)
        kept = through(partition, 2) - before
    finally:
        tracemalloc.stop()
    assert kept < 300_000, "three hundred thousand bytes are less than any of the large ones"
    assert partition.state.next == 3 * len(records)
    accepted(partition.send(request("next")))
    partition.state.check_integrity()


def test_two_thousand_hostile_records_leave_nothing_behind() -> None:
    """Deciding alone: what is kept of a name is the state's."""
    light = [CASES[name][0] for name in CASES if CASES[name][0].wire_bytes < 50_000]

    def through(number: int) -> int:
        for n in range(number):
            decide(light[n % len(light)], state, WORLD, NOW_MS)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    state = fresh_state()
    tracemalloc.start()
    try:
        before = through(len(light))
        kept = through(2000) - before
    finally:
        tracemalloc.stop()
    assert len(light) > 50
    assert kept < 30_000, "fifteen bytes a record are none"


def test_a_name_whose_time_is_far_ahead_leaves_like_any_other() -> None:
    """Case ADM-01, of a broker's clock: or the name is taken until that time comes, and an opening needs its decision
    long after it has left the log."""
    partition = Partition()
    state, hour_ms = partition.state, WORLD.limits.dedupe_window_ms
    record = arrival(request(seed=-1), 0, at_ms=2**62)
    state.apply(record, decide(record, state, WORLD, NOW_MS))
    partition.emit()
    for number, at_ms in enumerate((NOW_MS, NOW_MS + hour_ms // 2, NOW_MS + hour_ms + 6000), 1):
        record = arrival(request(f"later-{number}", seed=-1), number, at_ms=at_ms)
        state.apply(record, decide(record, state, WORLD, at_ms))
        partition.emit()
    assert [*state.names] == [b"alice/later-2", b"alice/later-3"]
    assert state.cursor().oldest == 3


def deeper(frames: int, what: Callable[[], Any]) -> Any:
    return what() if frames == 0 else deeper(frames - 1, what)


@pytest.mark.parametrize("levels", [NESTED_MAX - DEPTH_OF_A_FIELD, NESTED_MAX, 300, 600, 900, 5000])
@pytest.mark.parametrize("flaw", [b"", b'"seed": NaN, '], ids=["strict", "flawed"])
def test_what_a_record_is_does_not_depend_on_how_deep_the_stack_is(levels: int, flaw: bytes) -> None:
    """Or another process would call a repeat a conflict, or a rejection a dead letter."""
    value = spliced("inputs", nested(levels)).replace(b"{", b"{" + flaw, 1)
    shallow = decode(value)
    assert type(deeper(300, lambda: decode(value))) is type(shallow)
    assert type(deeper(600, lambda: decode(value))) is type(shallow)


def test_an_interpreter_that_reads_any_integer_does_not_read_it_here() -> None:
    """Python's own limit may be lifted by the environment, and reading is quadratic then."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        result = rejected(decide(arrival(spliced("seed", b"9" * 5000)), fresh_state(), WORLD, NOW_MS))
    finally:
        sys.set_int_max_str_digits(before)
    assert (result.code, result.field) == ("invalid_request", "body")
    assert "5000 digits; send at most" in result.message


def test_a_value_over_the_topics_limit_is_not_read_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 32 kB may unfold to 16 MiB: to parse that takes seconds and hundreds of megabytes."""
    monkeypatch.setattr("admission.stages.decode.decode_object", lambda value: pytest.fail("it was read"))
    letter = dead(decide(arrival(b"{" + b" " * REQUEST_BYTES_MAX), fresh_state(), WORLD, NOW_MS))
    assert str(REQUEST_BYTES_MAX) in letter.message
    assert REQUEST_BYTES_MAX < RECORD_BYTES_MAX

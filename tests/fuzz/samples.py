"""What a fuzz starts from: requests of every fate, and the pieces that readers have tripped over."""

import json
from dataclasses import dataclass
from typing import Any

from tests.unit.admission.scene import TENANT, request

CANCELLED_ID = "cancelled"
QUIET = "ivan"  # of the same partition; the fuzz asks in its name that the next record is served


@dataclass(frozen=True, slots=True)
class Sample:
    """A record without its place in the log."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    at_home: bool = True

    @property
    def size(self) -> int:
        return len(self.value or b"") + len(self.key or b"") + sum(len(k) + len(v or b"") for k, v in self.headers)


def _sample(**changes: Any) -> Sample:
    return Sample(json.dumps(request(**changes)).encode())


SEEDS = (
    _sample(),
    _sample(seed=7, images=3, priority="bulk", retry_of="r0", negative_prompt="blur", may_degrade=True),
    _sample(metadata={"album": "7", "a": "é"}, deadline="2029-01-15T08:00:00Z", inputs=[], schema_version=1),
    _sample(config={"name": "sketch", "version": 1}),
    _sample(config={"name": "sketch", "channel": "stable"}),
    _sample(config={"name": "sketch", "version": 2}),
    _sample(config={"name": "sketch", "version": 9}),
    _sample(config={"name": "oil"}),
    _sample(config={"name": "huge"}),
    _sample(config={"name": "stray"}),
    _sample(config={"name": "slow"}, deadline="2027-01-15T08:30:00Z"),
    _sample(config={"name": "wide"}),
    _sample(prompt="a b\u0142o\u200bod  BATH"),
    _sample(negative_prompt="knives, кnifes"),
    _sample(tenant="nobody-11"),  # unknown, and of the same partition
    _sample(tenant=QUIET, prompt="кот 🏺 é e\u0301 \u200d"),
    _sample(request_id=CANCELLED_ID),
    _sample(key="k"),
    _sample(key="another", images=4),
    _sample(config={"name": "many"}),
    _sample(config={"name": "many", "version": 2}),
    Sample(b'{"tenant":"alice","request_id":"r1","cancel":true}'),
    Sample(json.dumps(request()).encode(), TENANT.encode(), (("trace", b"1"), ("none", None))),
)


def _nested(levels: int) -> Any:
    return [_nested(levels - 1)] if levels else 1


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**53 - 1, 2**53, 2**64, 10**639, 0.5, 1.0, 1e308, float("nan"), float("inf"),
    "", " ", "1", "true", "NaN", "null", "\0", "a\0b", "\ud800", "\udfff\ud800", "\u200b", "\u202e", "\ufeff",
    "e\u0301", "../../tenant-b/x", "%2e%2e", "a//b", "\\", "'; --", "sketch", "stable", "bulk", "alice", "ivan",
    "2030-01-31T12:00:00Z", "2030-01-31T12:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
    "2030-02-30T00:00:00Z", "1900000000", "infinity", [], [[]], [None] * 20, {}, {"name": "sketch"},
    {"name": "sketch", "version": 1, "channel": "stable"}, {"a": {"b": {"c": []}}},
    _nested(62), _nested(63), _nested(64), _nested(700),
)  # fmt: skip

# Bytes that a mutation puts anywhere.
PIECES = (
    b"NaN", b"-Infinity", b"1e999", b"-0", b"01", b"1.", b"9" * 641, b"9" * 5000, b"[" * 70, b"]" * 70, b'{"a":' * 70,
    b"[" * 5000, b"\\ud800", b"\\udfff", b"\\u0000", b"\\u", b"\\x", b"\\", b'"', b"\0", b"\n", b"\xff",
    b"\xc0\xaf", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b",", b":", b"{", b"}", b"null", b"true",
    b'"tenant":"ivan",', b'"tenant":"alice",', b'"request_id":"r1",', b'"\\u0074enant":"alice",', b'"seed":1,', b"/*",
    b'"cancel":true,', b"'", "\u200b".encode() * 9, "\u0301".encode() * 2100,
)  # fmt: skip

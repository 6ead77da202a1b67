"""The requests of a run: which are good, which are not, and every end that would be right. Pure, given its dice."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.request import LANES
from tests.fault.history import Limit, Meaning

LIMITS: Mapping[str, Limit] = {
    "acme": Limit(burst=200, per_second=20),
    "globex": Limit(burst=200, per_second=20),
    "initech": Limit(burst=200, per_second=20),
    "umbrella": Limit(burst=200, per_second=20),
    # Always over its quota, so that a bucket given back by a crash would show.
    "greedy": Limit(burst=4, per_second=0.2),
    # The same in GPU-seconds, so that a refund given twice would show.
    "miser": Limit(burst=200, per_second=20, gpu_burst=3, gpu_per_second=0.05),
}
_CONFIGS = ("sketch", "painting", "poster")
_SUBJECTS = ("a lighthouse", "ein Fuchs im Schnee", "東京の夜", "un café à l'aube", "a red 🚲", "سفينة قديمة", "a moth")
_STYLES = ("in ink", "at dusk", "as a linocut", "under glass", "from above", "in fog")
_SHORT = frozenset({"greedy", "miser"})
_RUNS = frozenset({"succeeded"})
_LATE = frozenset({"succeeded", "expired", "rejected:deadline_infeasible"})


@dataclass(frozen=True, slots=True)
class Wish:
    """One record to send. Its bytes are fixed at the first sending, for a deadline counts from then."""

    meaning: Meaning
    key: bytes | None
    raw: bytes | None = None  # sent as it is, where the body cannot say it
    deadline_after_seconds: float | None = None
    spaced: bool = False  # the same JSON value, spelled otherwise

    def render(self, now: datetime) -> tuple[bytes | None, Meaning]:
        """The record's value, and the meaning of those bytes."""
        if self.raw is not None or self.meaning.name is None:
            return self.raw, self.meaning
        body = dict(self.meaning.body)
        if self.deadline_after_seconds is not None:
            moment = now + timedelta(seconds=self.deadline_after_seconds)
            body["deadline"] = moment.astimezone(UTC).isoformat(timespec="milliseconds")
        meaning = Meaning(self.meaning.name, self.meaning.payload, self.meaning.ends, body)
        if self.spaced:
            return json.dumps(body, indent=1, sort_keys=True).encode(), meaning
        return json.dumps(body, ensure_ascii=False).encode(), meaning


def good(dice: random.Random, number: int) -> Wish:
    """A request that must run, unless its tenant is over its quota or its deadline is short."""
    tenant = dice.choices(list(LIMITS), weights=(4, 3, 2, 1, 4, 3))[0]
    body = _body(dice, tenant, number)
    ends = _RUNS if tenant not in _SHORT else _RUNS | {"rejected:rate_limited"}
    deadline = None
    roll = dice.random()
    if roll < 0.08:
        deadline, ends = dice.uniform(0.3, 6.0), ends | _LATE
    elif roll < 0.2:
        deadline = 3600.0
    # A null key is allowed: the tenant is the value's.
    key = None if dice.random() < 0.04 else tenant.encode()
    return Wish(Meaning((tenant, body["request_id"]), 0, ends, body), key, deadline_after_seconds=deadline)


def twin(dice: random.Random, number: int) -> Wish:
    """Another request for one of a few pictures: whoever draws it, it is the same picture."""
    tenant = dice.choice(["acme", "globex", "initech"])
    body = _body(dice, tenant, number) | {
        "prompt": f"the same picture, number {number % 2}",
        "config": {"name": "sketch"},
        "seed": 7,
    }
    return Wish(Meaning((tenant, body["request_id"]), 0, _RUNS, body), tenant.encode())


def _body(dice: random.Random, tenant: str, number: int) -> dict[str, Any]:
    config = dice.choice(_CONFIGS)
    body: dict[str, Any] = {
        "schema_version": 1,
        "request_id": f"r{number:04d}" + dice.choice(["", " with a space", "/with/slashes", "-é"]),
        "tenant": tenant,
        "prompt": f"{dice.choice(_SUBJECTS)} {dice.choice(_STYLES)}, {number}",
        "config": {"name": config},
        "priority": dice.choice(LANES),
        "images": dice.choices([1, 2], weights=(4, 1))[0],
    }
    if config == "painting":
        body["config"] |= dice.choice([{"version": 1}, {"version": 2}, {"channel": "stable"}])
    if dice.random() < 0.5:
        body["seed"] = dice.choice([0, 1, 2**53 - 10, dice.randrange(2**32)])
    if dice.random() < 0.3:
        body["metadata"] = {"order": str(number), "note": "naïve ☂"}
    return body


_Spoil = Callable[[dict[str, Any]], Any]

# What is wrong, and the one code that says so.
_INVALID: tuple[tuple[str, _Spoil], ...] = (
    ("invalid_request", lambda body: body.update(promt="a misspelt field")),
    ("invalid_request", lambda body: body.pop("prompt")),
    ("invalid_seed", lambda body: body.update(seed=-1)),
    ("unsupported_schema", lambda body: body.update(schema_version=2)),
    ("unknown_config", lambda body: body.update(config={"name": "no-such-config"})),
    ("config_version_mismatch", lambda body: body.update(config={"name": "sketch", "version": 99})),
    ("prompt_too_long", lambda body: body.update(prompt="very " * 1000 + "long")),
)


def invalid(dice: random.Random, number: int) -> Wish:
    """A request with a readable name that must be refused, for one reason."""
    tenant = dice.choice(["acme", "globex", "initech"])
    body = _body(dice, tenant, number)
    code, spoil = dice.choice(_INVALID)
    spoil(body)
    return Wish(Meaning((tenant, body["request_id"]), 0, frozenset({f"rejected:{code}"}), body), tenant.encode())


def stranger(dice: random.Random, number: int) -> Wish:
    """A request of a tenant that nobody knows."""
    body = _body(dice, "nobody", number)
    return Wish(Meaning(("nobody", body["request_id"]), 0, frozenset({"rejected:unknown_tenant"}), body), b"nobody")


def miskeyed(dice: random.Random, number: int) -> Wish:
    """A request under another tenant's key."""
    body = _body(dice, "acme", number)
    meaning = Meaning(("acme", body["request_id"]), 0, frozenset({"rejected:invalid_request"}), body)
    return Wish(meaning, dice.choice([b"globex", b"initech"]))


def garbage(dice: random.Random, number: int) -> Wish:
    """A record without a name; its number makes its bytes its own."""
    raw = dice.choice(
        [
            b'{"tenant": "acme", "request_id": "r%d", oops' % number,
            b'\xff\xfe{"request_id": "r%d"}' % number,
            b'["acme", "r%d"]' % number,
            b'{"tenant": "acme", "prompt": "no name %d"}' % number,
            b'{"tenant": "acme", "request_id": "r%d", "request_id": "twice"}' % number,
            b'{"tenant": "acme/b", "request_id": "r%d", "prompt": "a slash in a tenant"}' % number,
            b"",
            None,
        ]
    )
    return Wish(Meaning(None), dice.choice([b"acme", b"globex", b"\x00\xff", None]), raw=raw)


def conflicting(dice: random.Random, first: Wish) -> Wish:
    """The name of `first` with another payload: dead-lettered, unless it comes first."""
    body = dict(first.meaning.body)
    body["prompt"] = str(body.get("prompt", "")) + "!"
    return Wish(Meaning(first.meaning.name, 1, first.meaning.ends, body), first.key)

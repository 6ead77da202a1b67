"""Strict JSON in, canonical JSON out.

Python's own reader takes NaN, keeps the last of two equal keys and raises four kinds of errors; here a body is either
exactly what its sender wrote or `Undecodable`.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from schemas.errors import Undecodable

# A request has two levels. Python's own reader goes as deep as the stack happens to allow, and what a record is must
# not depend on who calls.
NESTED_MAX = 64

# The lowest limit that an interpreter may be given, so that ours always comes first: reading is quadratic without one.
_INTEGER_DIGITS_MAX = sys.int_info.str_digits_check_threshold

_PLAIN_INTEGER_MAX = 2**63 - 1

_TYPE_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _refuse_constant(name: str) -> NoReturn:
    raise Undecodable(f"{name} is not a JSON number; send a finite number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Undecodable(f"the number {text[:32]} is out of range; send a finite number")
    return number


def _integer(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX:
        raise Undecodable(f"an integer has {len(text)} digits; send at most {_INTEGER_DIGITS_MAX}")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Undecodable(f"the key {key[:64]!r} stands twice in one object; send it once")
            seen.add(key)
    return members


_TOO_DEEP = f"the JSON is nested too deeply; send at most {NESTED_MAX} levels"

_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
# What encode() makes anew at each call; of a request that took half of the time.
_chunks = c_make_encoder(None, _encoder.default, encode_basestring, None, ":", ",", True, False, False)
_writer = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_finite, parse_constant=_refuse_constant
)


def decode_object(data: bytes) -> dict[str, Any]:
    """Read one JSON object from UTF-8 bytes.

    Raises Undecodable, with a sentence for the sender, on anything else: bad UTF-8, lone surrogates, duplicate keys,
    numbers that are not finite, integers of hundreds of digits, more than NESTED_MAX levels.
    """
    return _plain_object(data) or _strict_object(data)


def _strict_object(data: bytes) -> dict[str, Any]:
    try:
        text = data.decode("utf-8")
        # A body of a producer's has no white space around it, and then nothing is to be looked for there.
        value, end = _decoder.raw_decode(text) if text.startswith("{") else (None, -1)
        if end != len(text):
            value = _decoder.decode(text)
        if "\\u" in text:  # half of a pair can be written so, and has no UTF-8
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise Undecodable("the text is not valid UTF-8; lone surrogates and other encodings are refused") from error
    except RecursionError as error:
        raise Undecodable(_TOO_DEEP) from error
    except ValueError as error:
        raise Undecodable(f"the body is not JSON: {str(error)[:160]}") from error
    if not isinstance(value, dict):
        raise Undecodable(f"the body is {_TYPE_NAMES.get(type(value), 'a number')}; send a JSON object")
    if data.count(b"[") + data.count(b"{") > NESTED_MAX and too_deep(value):  # counting is what most bodies pay
        raise Undecodable(_TOO_DEEP)
    return value


def _plain_object(data: bytes) -> dict[str, Any] | None:
    """An object that leaves no doubt, as most requests are, by pydantic's reader: 1.2 µs, not 2.0. None: the strict one
    is to look at it, and to say what is wrong.

    That reader keeps the last of two equal keys, but each key has a colon: as many keys as colons, and none came twice.
    It would remember texts that it met; of a prompt nothing is to stay.
    """
    if b"[" in data:
        return None
    try:
        value = from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        return None
    keys, inside = 0, [value]
    for each in inside:  # it grows
        kind = type(each)
        if kind is str:
            continue
        if kind is dict:
            keys += len(each)
            inside += each.values()
        elif kind is int:
            if each > _PLAIN_INTEGER_MAX or each < -_PLAIN_INTEGER_MAX:
                return None
        elif kind is float:
            return None
    # No more values than levels that there may be, so no more levels either.
    plain = type(value) is dict and len(inside) <= NESTED_MAX and keys == data.count(b":")
    return value if plain else None


def _inside(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def too_deep(value: Any, inside: Callable[[Any], Iterable[Any]] = _inside) -> bool:
    """Has a dict or list more than NESTED_MAX levels? `inside` says what is in one. Level by level, for a recursion
    would end where the stack does."""
    level = [value]
    for _ in range(NESTED_MAX):
        level = [each for container in level for each in inside(container) if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def canonical(value: Any) -> bytes:
    """The one spelling of a JSON value: keys sorted, no spaces, UTF-8. Equal values give equal bytes."""
    return "".join(_chunks(value, 0)).encode("utf-8")


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(value: Any) -> str:
    """A JSON value as encode() writes it, in a fifth of the time that Python's own writer takes. Raises ValueError on a
    number that is not finite."""
    text = to_json(value).decode()
    if "Infinity" in text or "NaN" in text:  # so pydantic writes such a number; mostly it is a sender's word
        return _writer.encode(value)
    return text


def encode(event: BaseModel) -> bytes:
    """An event of ours as UTF-8 JSON, its fields as they are declared, absent ones left out. Raises ValueError
    on a number that is not finite."""
    text = event.model_dump_json(exclude_none=True)
    if "null" in text:  # so pydantic writes a number that is not finite; mostly it is a sender's word
        text = _writer.encode(event.model_dump(mode="json", exclude_none=True))
    return text.encode()

"""Strict JSON in, canonical JSON out.

Python's own reader takes NaN, keeps the last of two equal keys and raises four kinds of errors; here a body is either
exactly what its sender wrote or `Undecodable`.
"""

import hashlib
import json
import math
from typing import Any, NoReturn

from pydantic import BaseModel

from schemas.errors import Undecodable

_TYPE_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _refuse_constant(name: str) -> NoReturn:
    raise Undecodable(f"{name} is not a JSON number; send a finite number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Undecodable(f"the number {text[:32]} is out of range; send a finite number")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Undecodable(f"the key {key[:64]!r} stands twice in one object; send it once")
            seen.add(key)
    return members


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse_constant)


def decode_object(data: bytes) -> dict[str, Any]:
    """Read one JSON object from UTF-8 bytes.

    Raises Undecodable, with a sentence for the sender, on anything else: bad UTF-8, lone surrogates, duplicate keys,
    numbers that are not finite, integers of thousands of digits, nesting that would exhaust the stack.
    """
    try:
        text = data.decode("utf-8")
        value = _decoder.decode(text)
        text if "\\u" not in text else json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise Undecodable("the text is not valid UTF-8; lone surrogates and other encodings are refused") from error
    except RecursionError as error:
        raise Undecodable("the JSON is nested too deeply") from error
    except ValueError as error:
        raise Undecodable(f"the body is not JSON: {str(error)[:160]}") from error
    if not isinstance(value, dict):
        raise Undecodable(f"the body is {_TYPE_NAMES.get(type(value), 'a number')}; send a JSON object")
    return value


def canonical(value: Any) -> bytes:
    """The one spelling of a JSON value: keys sorted, no spaces, UTF-8. Equal values give equal bytes."""
    return _encoder.encode(value).encode("utf-8")


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode(event: BaseModel) -> bytes:
    """An event of ours as UTF-8 JSON, absent fields left out. Raises ValueError on a number that is not finite."""
    return canonical(event.model_dump(mode="json", exclude_none=True))

"""Reading events and decisions as plain JSON: the checker shares names with the services, and no code."""

import json
from collections.abc import Sequence
from typing import Any

from tests.fault.history import Name, Record


class Unreadable(Exception):
    """The record is no JSON object."""


def body_of(record: Record) -> dict[str, Any]:
    """Raises Unreadable."""
    return parse(record.value, record.at)


def parse(data: bytes | None, where: str) -> dict[str, Any]:
    """Raises Unreadable."""
    try:
        body = json.loads(data or b"")
    except ValueError as error:
        raise Unreadable(f"{where} is no JSON: {data!r}") from error
    if not isinstance(body, dict):
        raise Unreadable(f"{where} is no JSON object: {data!r}")
    return body


def name_of(body: dict[str, Any]) -> Name:
    return str(body.get("tenant")), str(body.get("request_id"))


def end_of(body: dict[str, Any]) -> str:
    """`succeeded`, or `rejected:rate_limited`: the status, with the code where there is one."""
    status, code = body.get("status"), body.get("code")
    return f"{status}:{code}" if code else str(status)


def readable(records: Sequence[Record]) -> list[tuple[Record, dict[str, Any]]]:
    """The records that are JSON objects, with their bodies; each check of its own names the others."""
    pairs = []
    for record in records:
        try:
            pairs.append((record, body_of(record)))
        except Unreadable:
            continue
    return pairs

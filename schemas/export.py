"""JSON Schema of every event, and one AsyncAPI 3 document that says on which channel each travels.

Source: AsyncAPI 3.0 (channels, operations, messages as separate maps), JSON Schema 2020-12 as pydantic writes it.
"""

from typing import Any

from pydantic import TypeAdapter

from schemas.cancel import Cancel, CancelRequest
from schemas.dead_letter import (
    HEADER_FIRST_OFFSET,
    HEADER_MESSAGE,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_REASON,
    HEADER_TOPIC,
)
from schemas.decision import Decision
from schemas.observation import Observation
from schemas.outcome import Outcome
from schemas.progress import ProgressEvent
from schemas.request import LANES, GenerationRequest
from schemas.result import GenerationResult
from schemas.signature import HEADER_SIGNATURE
from schemas.tenancy import Cursor, Outstanding, TenantRecord, UsageRecord
from schemas.topics import Catalogue
from schemas.trace import HEADER_TRACE
from schemas.uptime import Uptime
from schemas.work import WorkItem

_DEAD_LETTER = (HEADER_REASON, HEADER_MESSAGE, HEADER_TOPIC, HEADER_PARTITION, HEADER_OFFSET, HEADER_FIRST_OFFSET)
_EVENTS: dict[str, Any] = {
    "GenerationRequest": GenerationRequest,
    "CancelRequest": CancelRequest,
    "Cancel": Cancel,
    "Decision": Decision,
    "WorkItem": WorkItem,
    "GenerationResult": GenerationResult,
    "ProgressEvent": ProgressEvent,
    "Outcome": Outcome,
    "Observation": Observation,
    "Uptime": Uptime,
    "TenantRecord": TenantRecord,
    "Outstanding": Outstanding,
    "Cursor": Cursor,
    "UsageRecord": UsageRecord,
}


def json_schemas() -> dict[str, dict[str, Any]]:
    """Event name -> its JSON Schema, as a reader validates it."""
    return {name: TypeAdapter(event).json_schema(mode="validation") for name, event in _EVENTS.items()}


def _channel(address: str, description: str, *messages: str) -> dict[str, Any]:
    return {
        "address": address,
        "description": description,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
    }


def _message(name: str) -> dict[str, Any]:
    """How it is keyed and what stands in its headers, where a client of somebody else's must know."""
    said: dict[str, Any] = {
        "name": name,
        "payload": {"$ref": f"#/components/schemas/{name}"},
        "contentType": "application/json",
    }
    if name in ("GenerationRequest", "CancelRequest", "GenerationResult", "ProgressEvent"):
        said["bindings"] = {"kafka": {"key": {"type": "string", "description": "The tenant, in UTF-8."}}}
    if name in ("GenerationRequest", "CancelRequest"):
        said["headers"] = _texts(HEADER_SIGNATURE, HEADER_TRACE)
    elif name == "GenerationResult":
        said["headers"] = _texts(HEADER_TRACE)
    return said


def _texts(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def _operation(action: str, channel: str, summary: str) -> dict[str, Any]:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}


def asyncapi(catalogue: Catalogue, version: str) -> dict[str, Any]:
    """The AsyncAPI 3 document of a deployment. `send` and `receive` are promptkiln's own, as the standard has it."""
    channels = {
        "requests": _channel(
            catalogue.requests,
            f"What producers ask for, keyed by tenant; of a tenant with `topic: true` in {catalogue.requests}.TENANT.",
            "GenerationRequest",
            "CancelRequest",
        ),
        "cancels": _channel(
            catalogue.cancels, "Requests that are to end, keyed by tenant/request-id; any value counts.", "Cancel"
        ),
        "results": _channel(
            catalogue.results,
            "How each request ended, exactly once for a reader with isolation.level=read_committed; keyed by tenant.",
            "GenerationResult",
        ),
        "progress": _channel(
            catalogue.progress,
            "How far jobs are that run for longer than a moment, keyed by tenant; best effort, the results count.",
            "ProgressEvent",
        ),
        "decisions": _channel(catalogue.decisions, "What admission decided, keyed by tenant/request-id.", "Decision"),
        "tenants": _channel(
            catalogue.tenants, "Admission's own memory, compacted.", "TenantRecord", "Outstanding", "Cursor"
        ),
        "usage": _channel(
            catalogue.usage, "The last counts of tenants and keys that admission forgot, once each.", "UsageRecord"
        ),
        "observations": _channel(
            catalogue.observations, "What batches took, by kind of device; compacted.", "Observation"
        ),
        "uptime": _channel(
            catalogue.uptime, "How long each GPU consumer was busy and idle, a record an hour; compacted.", "Uptime"
        ),
        "deadLetters": _channel(
            catalogue.dead_letters,
            "Original bytes, key and headers; the reason and where it stood in more headers.",
            "DeadLetter",
        ),
    }
    for pool in catalogue.pools:
        channels[f"work-{pool}"] = _channel(
            catalogue.work(pool, "{lane}"), "Accepted work, keyed by job id.", "WorkItem"
        ) | {"parameters": {"lane": {"enum": list(LANES)}}}
    schemas = json_schemas()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "promptkiln",
            "version": version,
            "description": "Prompt events in, pictures and short videos out.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": {
            "receiveRequest": _operation("receive", "requests", "Ask for pictures."),
            "sendResult": _operation("send", "results", "Learn how a request ended."),
            "sendProgress": _operation("send", "progress", "Watch how far a request is."),
            "sendDeadLetter": _operation("send", "deadLetters", "See what could not be read."),
        },
        "components": {
            "messages": {name: _message(name) for name in schemas}
            | {
                "DeadLetter": {
                    "name": "DeadLetter",
                    "headers": _texts(*_DEAD_LETTER),
                    "contentType": "application/octet-stream",
                }
            },
            "schemas": {name: _inlined(name, schema) for name, schema in schemas.items()},
        },
    }


def _inlined(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its local references made absolute within the document."""

    def rewrite(node: Any) -> Any:
        if isinstance(node, dict):
            return {
                key: value.replace("#/$defs/", f"#/components/schemas/{name}/$defs/")
                if isinstance(value, str) and value.startswith("#/$defs/")
                else rewrite(value)
                for key, value in node.items()
            }
        return [rewrite(each) for each in node] if isinstance(node, list) else node

    rewritten: dict[str, Any] = rewrite(schema)
    return rewritten

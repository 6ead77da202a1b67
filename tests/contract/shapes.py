"""What may stand in each event, a line a field, and what an earlier release and this one would not understand of each
other.

    python -m tests.contract.shapes     adds what is new to shapes.json; what was there stays

A fact is `required`, a type, `=value` of an enumeration, or a limit such as `maximum 256`. `closed`: what is not known
is refused.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, get_args

from pydantic import TypeAdapter

from schemas.control import Control
from schemas.demand import Demand
from schemas.export import json_schemas
from schemas.result import GenerationResult

Facts: TypeAlias = frozenset[str]
Shapes: TypeAlias = dict[str, Facts]

WRITTEN = Path(__file__).with_name("shapes.json")
_LIMITS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "maxProperties", "pattern", "format",
)  # fmt: skip


def shapes() -> Shapes:
    """`Event.field.field` -> its facts, of this release."""
    schemas = {name: schema for name, schema in json_schemas().items() if name != "GenerationResult"}
    variants = get_args(get_args(GenerationResult)[0])
    for event in (*variants, Demand, *get_args(Control)):
        schemas[event.__name__] = TypeAdapter(event).json_schema(mode="validation")
    found: Shapes = {}
    for name, schema in schemas.items():
        for path, facts in _walk(name, schema, schema.get("$defs", {}), required=True):
            found[path] = found.get(path, frozenset()) | facts
    return found


def _walk(
    path: str, node: Mapping[str, Any], definitions: Mapping[str, Any], *, required: bool
) -> Iterator[tuple[str, Facts]]:
    if "$ref" in node:
        node = {**definitions[node["$ref"].rpartition("/")[2]], **node}
    facts = {f"{limit} {node[limit]}" for limit in _LIMITS if limit in node}
    facts |= {f"={value}" for value in node.get("enum", [node["const"]] if "const" in node else [])}
    facts |= {node["type"]} if "type" in node else set()
    facts |= {"required"} if required else set()
    facts |= {"closed"} if node.get("additionalProperties") is False else set()
    yield path, frozenset(facts)
    for word in ("anyOf", "oneOf", "allOf"):
        for each in node.get(word, []):
            yield from _walk(path, each, definitions, required=required)
    for name, each in node.get("properties", {}).items():
        yield from _walk(f"{path}.{name}", each, definitions, required=name in node.get("required", ()))
    for each in [node["items"]] if "items" in node else node.get("prefixItems", []):
        yield from _walk(f"{path}[]", each, definitions, required=False)
    if isinstance(more := node.get("additionalProperties"), dict):
        yield from _walk(f"{path}{{}}", more, definitions, required=False)


def faults(before: Shapes, now: Shapes) -> list[str]:
    """A sentence for each thing that one of the two writes and the other does not read, or passes over.

    Not told: values and fields that are new. Readers are upgraded first, and what they would not know until then they
    hold, or pass over.
    """
    new = [path for path in now if path not in before and "required" in now[path] and _parent(path) in before]
    return [
        *(f"{path} is required: earlier records lack it; give it a default" for path in new),
        *(fault for path in before for fault in _faults(path, before, now)),
    ]


def _parent(path: str) -> str:
    """Where a field stands. What is new there may require what it likes in itself."""
    return path.rpartition(".")[0]


def _faults(path: str, before: Shapes, now: Shapes) -> Iterator[str]:
    was, facts = before[path], now.get(path)
    if facts is None:
        yield f"{path} is gone: what earlier records say there would be passed over, or refused"
        return
    if "required" in facts - was:
        yield f"{path} is required: earlier records lack it; give it a default"
    if "required" in was - facts and not _is_newer(path, before, now):
        yield f"{path} may be left out: an earlier reader cannot do without; count schema_version up"
    opened = facts & {"string", "integer"} and not any(fact.startswith("=") for fact in facts)
    for lost in sorted(was - facts):
        if lost != "required" and not _is_limit(lost) and not (lost.startswith("=") and opened):
            yield f"{path} is no more {lost}: earlier records have it"
    for limit in sorted(filter(_is_limit, facts - was)):
        if not _is_looser(limit, was):
            yield f"{path} has {limit}: earlier records may lie beyond it"


def _is_limit(fact: str) -> bool:
    return fact == "closed" or fact.partition(" ")[0] in _LIMITS


def _is_looser(limit: str, was: Facts) -> bool:
    word, _, value = limit.partition(" ")
    former = [fact.partition(" ")[2] for fact in was if fact.partition(" ")[0] == word]
    if not former or word in ("pattern", "format", "closed"):
        return False
    lowest = word in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
    return float(value) <= float(former[0]) if lowest else float(value) >= float(former[0])


def _is_newer(path: str, before: Shapes, now: Shapes) -> bool:
    """Whether events have another version by now: earlier readers hold, or pass over, the whole record."""
    field = f"{path.partition('.')[0]}.schema_version"
    return bool(now.get(field, frozenset()) - before.get(field, frozenset()))


def written() -> Shapes:
    return {path: frozenset(facts) for path, facts in json.loads(WRITTEN.read_text(encoding="utf-8")).items()}


def text_of(shapes: Shapes) -> str:
    lines = [f" {json.dumps(path)}: {json.dumps(sorted(facts))}" for path, facts in sorted(shapes.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    before, now = written() if WRITTEN.exists() else {}, shapes()
    if found := faults(before, now):
        sys.stderr.write("\n".join(found) + "\n")
        return 1
    WRITTEN.write_text(text_of(now), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A misspelt field of pools.yaml is refused in one sentence that names it, and nothing is written."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.infra.outcome import Outcome, counted
from tests.infra.rendered import DECLARED, render
from tests.infra.tools import WORK

Declared = dict[str, Any]


def misspelt(declared: Declared) -> Iterator[tuple[str, Declared]]:
    """The declaration with one field misspelt, each in its turn, and how that field is called."""
    for path in _mappings(declared):
        for field in sorted(_at(declared, path)):
            broken: Declared = yaml.safe_load(yaml.safe_dump(declared))
            node = _at(broken, path)
            node[f"{field}x"] = node.pop(field)
            yield field, broken


def refused(said: str | None, field: str) -> str | None:
    """What is wrong with how it was refused."""
    if said is None:
        return f"{field}x is passed over in silence"
    if not re.search(rf"\b{field}x?\b", said.replace("pools.yaml", "")):
        return f"{field}x is refused without its name: {said}"
    return f"{field}x is refused in more than one sentence: {said}" if "\n" in said or "Traceback" in said else None


def misspelt_pools() -> Outcome:
    declared = yaml.safe_load(DECLARED["examples"].read_text(encoding="utf-8"))
    folder = WORK / "misspelt"
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    cases = list(misspelt(declared))
    for field, broken in cases:
        file = folder / "pools.yaml"
        file.write_text(yaml.safe_dump(broken), encoding="utf-8")
        problem = refused(render(file, folder / "out"), field)
        found += [problem] if problem else []
    return Outcome(counted(misspelt_fields=len(cases)), tuple(found))


def _at(declared: Declared, path: tuple[str, ...]) -> Declared:
    node: Any = declared
    for step in path:
        node = node[step]
    found: Declared = node
    return found


def _mappings(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a mapping of fields is. The names of pools are chosen freely, and labels are the cluster's own."""
    if isinstance(node, Mapping) and node:
        if path not in {("pools",)} and path[-1:] != ("labels",):
            yield path
        for key, value in node.items():
            yield from _mappings(value, (*path, key))

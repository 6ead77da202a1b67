"""What a PromQL expression reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser

from infra.observe.panel import RATE


@dataclass(frozen=True, slots=True)
class Selector:
    """The series that are read, and the labels by which they are chosen."""

    name: str
    labels: frozenset[str]


def parse(expr: str, rate: str = "1m") -> Any:
    """Raises ValueError where it cannot be parsed. Grafana's interval is put in; its variables are only values."""
    return promql_parser.parse(expr.replace(RATE, rate))


def selectors(expr: str) -> list[Selector]:
    return list(_selectors(parse(expr)))


def grouped(expr: str) -> set[str]:
    """Every label by which something is grouped or matched."""
    found: set[str] = set()
    for node in _nodes(parse(expr)):
        modifier = getattr(node, "modifier", None)
        labels = getattr(modifier, "labels", None) or getattr(getattr(modifier, "matching", None), "labels", None)
        found |= set(labels or ())
    return found


def _selectors(root: Any) -> Iterator[Selector]:
    for node in _nodes(root):
        if isinstance(node, promql_parser.VectorSelector):
            matchers = node.matchers.matchers
            yield Selector(node.name or "", frozenset(each.name for each in matchers))


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for name in ("expr", "lhs", "rhs", "param", "vector_selector"):
        child = getattr(node, name, None)
        if child is not None and not isinstance(child, str):
            yield from _nodes(child)
    for child in getattr(node, "args", None) or ():
        yield from _nodes(child)

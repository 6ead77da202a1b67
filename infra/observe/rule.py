"""What a rule is, and how Prometheus wants it written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["critical", "warning"]  # somebody is woken; somebody looks in the morning


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that several rules and panels read, so that it is worked out once and in one way."""

    name: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"record": self.name, "expr": self.expr}
        return document | ({"labels": dict(self.labels)} if self.labels else {})


@dataclass(frozen=True, slots=True)
class Alert:
    """`description` has the value in it, in Prometheus's template language. Its page is docs/runbooks/<name>.md."""

    name: str
    severity: Severity
    expr: str
    for_seconds: int
    summary: str
    description: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def document(self, runbooks: str) -> dict[str, Any]:
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": f"{self.for_seconds}s",
            "labels": {"severity": self.severity, **self.labels},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{runbooks.rstrip('/')}/{self.name}.md",
            },
        }


def value_of(thing: str) -> str:
    """The alert's value and what it counts, in Prometheus's template language: 1 record, 2 records."""
    return "{{ $value | humanize }} " + thing + '{{ if ne (humanize $value) "1" }}s{{ end }}'


def number(value: float) -> str:
    """As PromQL reads it, and no longer than it must be."""
    return format(value, ".12g")

"""A story of series, and what an alert makes of it, as `promtool test rules` reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.observe.rule import Alert


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that fires: its labels besides its severity, and its sentence with the value in it."""

    description: str
    labels: Mapping[str, str] = field(default_factory=dict)
    severity: str | None = None  # of an alert that has two


@dataclass(frozen=True, slots=True)
class Case:
    """`series` have a value a minute, in promtool's notation; at minute `at` exactly `fires` fire. None: silent.

    `not_yet`: the minute at which what is wrong is there, and has not been for long enough to be told.
    """

    alert: str
    story: str
    series: Mapping[str, str]
    at: int
    fires: Sequence[Firing] = ()
    not_yet: int | None = None

    def document(self, alerts: Sequence[Alert], runbooks: str) -> dict[str, Any]:
        return {
            "name": f"{self.alert}: {self.story}",
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "alert_rule_test": [
                *([] if self.not_yet is None else [self._at(self.not_yet, [])]),
                self._at(self.at, [self._expected(firing, alerts, runbooks) for firing in self.fires]),
            ],
        }

    def _at(self, minute: int, expected: list[dict[str, Any]]) -> dict[str, Any]:
        return {"eval_time": f"{minute}m", "alertname": self.alert, "exp_alerts": expected}

    def _expected(self, firing: Firing, alerts: Sequence[Alert], runbooks: str) -> dict[str, Any]:
        alert = next(each for each in alerts if each.name == self.alert and firing.severity in {None, each.severity})
        return {
            "exp_labels": {"severity": alert.severity, **firing.labels},
            "exp_annotations": {
                "summary": alert.summary,
                "description": firing.description,
                "runbook_url": f"{runbooks}/{alert.name}.md",
            },
        }

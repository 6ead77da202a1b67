"""What a dashboard shows, as data: Grafana's JSON is rendered from it, and so are the plots of the docs."""

from dataclasses import dataclass
from typing import Literal

RATE = "$__rate_interval"  # Grafana's: four scrapes at least
DAYS_A_MONTH = 30.4
HOURS_A_MONTH = 730

# What stands in panels that are idle.
ASLEEP = "no consumer runs: the pool sleeps, or is not scraped"
UNDRAWN = "nothing is drawn"


@dataclass(frozen=True, slots=True)
class Query:
    """`legend` is a template over the labels of the result, as Grafana's: {{lane}}."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """`unit` is one of Grafana's. `idle` is what stands there while nothing is asked for and no consumer runs; `empty`
    says why there may be nothing to see under load either, where all is well."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat"] = "timeseries"
    stacked: bool = False
    idle: str | None = None
    empty: str | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """One that the reader chooses: the values that `label` has on `metric`."""

    name: str
    metric: str
    label: str


@dataclass(frozen=True, slots=True)
class Board:
    """The most important panels first."""

    name: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


POOL = Variable("pool", "kiln_gpu_pictures_total", "pool")
TENANT = Variable("tenant", "kiln_admission_tenant_decisions_total", "tenant")
INSTANCE = Variable("instance", "kiln_gpu_pictures_total", "instance")

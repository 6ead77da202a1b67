"""A page for each alert, which names nothing that is not there."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from admission.settings import AdmissionLimits
from gpu_consumer.gpu.settings import GpuTelemetrySettings
from gpu_consumer.ledger import Ledger
from gpu_consumer.settings import GpuConsumerSettings
from infra.observe.alerts import alerts, rules
from infra.observe.metrics import METRICS, labels_of
from infra.observe.rule import Recording
from infra.observe.settings import AlertSettings
from infra.scaler.settings import ScalerSettings
from streams.cli import build
from streams.settings import AdmissionServiceSettings
from tests.promql import selectors
from tests.unit.infra.observe.deployment import CATALOGUE, POOLS

ROOT = Path(__file__).parents[4]
PAGES = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
ALERTS = {alert.name for alert in alerts(rules(POOLS, CATALOGUE).values())}
PARTS = ("What it means.", "Meanwhile.", "Look first", "Causes, the likely first", "Cure.", "Escalate")
SETTINGS: tuple[Any, ...] = (
    AdmissionLimits, AdmissionServiceSettings, AlertSettings, GpuConsumerSettings, GpuTelemetrySettings, ScalerSettings,
)  # fmt: skip
# Gauges that their process takes back when the broker is away; those that are `seen` leave by themselves.
TOLD_BY_A_BROKER = {metric.name for metric in METRICS if metric.seen} | {
    "kiln_admission_pool_consumers",
    "kiln_admission_waiting_gpu_seconds",
    "kiln_gpu_passed_by_partitions",
    "kiln_scaler_disbelieved_partitions",
}
VARIABLES = {f"{each.model_config['env_prefix']}{name}".upper() for each in SETTINGS for name in each.model_fields}


def test_each_alert_has_a_page_and_each_page_an_alert() -> None:
    assert {path.stem for path in PAGES} - {"README"} == ALERTS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_answers_in_order_what_one_asks_at_night(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.stem == "README":
        return
    assert text.startswith(f"# {page.stem}\n")
    places = [text.index(f"**{part}") for part in PARTS]
    assert places == sorted(places)
    meanwhile = text[places[1] : places[2]]
    assert re.search(r"\b(it|xid`?|and) (ends|does not end)\s+by\s+itself", meanwhile, re.IGNORECASE), "when?"


def test_a_page_says_so_where_its_alert_is_silent_while_the_broker_is_away() -> None:
    every = [rule for group in rules(POOLS, CATALOGUE).values() for rule in group]
    recorded = {rule.name: rule.expr for rule in every if isinstance(rule, Recording)}

    def silent(expr: str) -> bool:
        names = {selector.name for selector in selectors(expr)}
        return bool(names & TOLD_BY_A_BROKER) or any(silent(recorded[name]) for name in names & recorded.keys())

    quiet = {alert.name for alert in alerts([every]) if silent(alert.expr)}
    say_so = set()
    for page in PAGES:
        meanwhile = page.read_text(encoding="utf-8").partition("**Meanwhile.**")[2].partition("**Look first**")[0]
        if "[KilnViewStale]" in meanwhile:
            say_so.add(page.stem)
    assert quiet == say_so


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_only_what_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"\bkiln_[a-z_]+\b", text):
        assert labels_of(name) is not None, name
    for name in re.findall(r"\bKILN_[A-Z_]+[A-Z]\b", text):
        assert name in VARIABLES, name
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (page.parent / link).exists(), link


def test_the_ledger_that_a_page_has_one_write_is_one_of_nothing_done() -> None:
    page = (ROOT / "docs" / "runbooks" / "KilnLedgerBeyondWork.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"LANE:(\{.*\})'", page)
    assert Ledger.decode(written.encode()) == Ledger()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_calls_only_commands_that_there_are(page: Path) -> None:
    kiln: Any = typer.main.get_command(build())
    for first, second in re.findall(r"(?:^|`)kiln ([a-z-]+)(?: ([a-z-]+))?", page.read_text("utf-8"), re.MULTILINE):
        assert first in kiln.commands, first
        if inner := getattr(kiln.commands[first], "commands", None):
            assert second in inner, f"{first} {second}"

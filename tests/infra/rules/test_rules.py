"""Needs promtool: `make infra-check` runs it, `make test` does not."""

import subprocess
from pathlib import Path

import pytest
import yaml

from infra.observe.alerts import alerts, rule_groups, rules
from infra.observe.settings import AlertSettings
from tests.infra.rules.admission import ADMISSION
from tests.infra.rules.case import Case
from tests.infra.rules.consumers import CONSUMERS
from tests.infra.rules.pools import POOLS as POOL_CASES
from tests.infra.rules.processes import PROCESSES
from tests.infra.rules.quiet import QUIET
from tests.prometheus import NoPrometheus, Tools, tools
from tests.unit.infra.observe.deployment import CATALOGUE, POOLS

CASES: tuple[Case, ...] = (*ADMISSION, *CONSUMERS, *PROCESSES, *POOL_CASES, *QUIET)
ALERTS = alerts(rules(POOLS, CATALOGUE).values())
RUNBOOKS = AlertSettings().runbooks


@pytest.fixture(scope="module")
def promtool() -> Tools:
    try:
        return tools()
    except NoPrometheus as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def rules_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": rule_groups(POOLS, CATALOGUE)}), encoding="utf-8")
    return path


def test_prometheus_takes_the_rules(promtool: Tools, rules_file: Path) -> None:
    checked = _run(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(rules_file))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("alert", sorted({alert.name for alert in ALERTS}))
def test_it_fires_when_it_must_and_only_then(alert: str, promtool: Tools, rules_file: Path) -> None:
    cases = [case for case in CASES if case.alert == alert]
    document = {
        "rule_files": [str(rules_file)],
        "evaluation_interval": "30s",
        "tests": [case.document(ALERTS, RUNBOOKS) for case in cases],
    }
    path = rules_file.with_name(f"{alert}.yaml")
    path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    tested = _run(promtool, "test", "rules", str(path))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_has_a_story_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    names = {alert.name for alert in ALERTS}
    assert {case.alert for case in CASES if case.fires} == names
    assert {case.alert for case in CASES if not case.fires} == names


def test_every_alert_that_waits_is_seen_to_wait() -> None:
    patient = {alert.name for alert in ALERTS if alert.for_seconds}
    assert {case.alert for case in CASES if case.not_yet is not None} == patient


def _run(promtool: Tools, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(promtool.promtool), *arguments], capture_output=True, text=True, timeout=120, check=False
    )

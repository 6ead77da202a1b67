from typing import Any

import pytest
import yaml

from infra.render import monitors
from infra.render.declared import Declared
from infra.render.documents import documents
from infra.render.kustomize import kustomize
from infra.render.manifest import to_yaml
from infra.render.monitors import alert_rules, known, plain
from tests.unit.infra.render.conftest import Declare


def test_rules_of_many_pools_are_no_object_that_the_operator_refuses(
    monkeypatch: pytest.MonkeyPatch, example: Declared
) -> None:
    """It puts an object's rules into a ConfigMap, and no more than 512 KiB."""
    assert monitors._RULES_BYTES_MAX < 512 << 10
    monkeypatch.setattr(monitors, "_RULES_BYTES_MAX", 1000)
    groups = [{"name": f"pool-{number}", "rules": [{"alert": "A", "expr": "1" * 200}]} for number in range(10)]
    made = list(alert_rules(example, groups))
    assert max(len(to_yaml([each["spec"]])) for each in made) < 1200
    assert len({each["metadata"]["name"] for each in made}) == len(made) == 4
    assert yaml.safe_load(plain({"alerts.yaml": made})["prometheus/alerts.yaml"]) == {"groups": groups}


def test_rules_of_few_are_one_object(example: Declared) -> None:
    (made,) = alert_rules(example, [{"name": "a", "rules": []}, {"name": "b", "rules": []}])
    assert made["metadata"]["name"] == "kiln-alerts"


def test_without_the_prometheus_operator_no_object_is_its_own_and_the_rules_are_a_file(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["monitoring"] = {"operator": False}

    declared = declare(change)
    found = documents(declared)
    applied = known(declared, found)
    kinds = {each["kind"] for made in applied.values() for each in made}
    assert not kinds & {"PodMonitor", "PrometheusRule"}
    assert kinds == {each["kind"] for made in found.values() for each in made} - {"PodMonitor", "PrometheusRule"}
    assert "alerts.yaml" not in applied
    assert "PodMonitor" not in kustomize(declared, applied)["overlays/development/kustomization.yaml"]
    assert yaml.safe_load(plain(found)["prometheus/alerts.yaml"])["groups"]
    assert known(declare(), found) == found

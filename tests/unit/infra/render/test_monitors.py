import pytest
import yaml

from infra.render import monitors
from infra.render.declared import Declared
from infra.render.manifest import to_yaml
from infra.render.monitors import alert_rules, plain


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

"""Helm is not needed here: its templates use an index, a quote, an int and the release's namespace, which are played.

So this shows that the chart's defaults are the Kustomize base and that nothing else is left in the templates. That
Helm reads them is shown by `make infra-check`, which has its engine.
"""

import json
import re
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, ValidationError

from infra.render.declared import Declared
from infra.render.documents import documents
from infra.render.helm import STAMP_ANNOTATION, helm, values
from infra.render.manifest import Manifest
from schemas.pools import Pools
from tests.unit.infra.render.conftest import Declare, Found
from tests.unit.infra.render.test_services import OWN_TOPIC

_INDEX = re.compile(r'\{\{ index \.Values ((?:"[^"]*" )+)\| (quote|int) \}\}')
_STAMP = re.compile(
    r"\{\{ list \.Values\.cluster\.kafka \.Values\.cluster\.store (\.Values\.pools )?"
    r"\| toJson \| sha256sum \| trunc 16 \}\}"
)


def _play(template: str, given: dict[str, Any], namespace: str) -> list[Manifest]:
    def value(found: re.Match[str]) -> str:
        node: Any = given
        for part in found[1].split():
            node = node[json.loads(part)]
        return json.dumps(node) if found[2] == "quote" else str(int(node))

    text = _INDEX.sub(value, template).replace("{{ .Release.Namespace }}", namespace)
    text = _STAMP.sub(lambda found: "stamp of pools" if found[1] else "stamp", text)
    assert "{{" not in text.replace('{{ "{{" }}', ""), "the templates say more than this test plays"
    return list(yaml.safe_load_all(text.replace('{{ "{{" }}', "{{")))


def _chart(declared: Declared, given: dict[str, Any], namespace: str) -> list[Manifest]:
    files = helm(declared, documents(declared), "0.1.0")
    return [
        each
        for name, text in files.items()
        if name.startswith("templates/") and name != "templates/refused.yaml"
        for each in _play(text, given, namespace)
    ]


def _pools(made: list[Manifest]) -> Pools:
    (said,) = (each["data"]["pools.yaml"] for each in made if each["metadata"]["name"] == "kiln-declared")
    return Pools.model_validate(yaml.safe_load(said))


def test_with_its_own_values_the_chart_is_the_base(declare: Declare) -> None:
    declared = declare(tenants=OWN_TOPIC)
    made = _chart(declared, yaml.safe_load(helm(declared, documents(declared), "0")["values.yaml"]), "promptkiln")
    for each in made:
        if each["kind"] == "Deployment":
            stamp = each["spec"]["template"]["metadata"]["annotations"].pop(STAMP_ANNOTATION)
            counts = each["metadata"]["name"] in ("kiln-admission", "kiln-scaler")
            assert stamp == ("stamp of pools" if counts else "stamp")
        if each["kind"] == "KafkaTopic":  # so that no topic goes with the release
            assert each["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    base = [each for found in documents(declared).values() for each in found if each["kind"] != "Namespace"]
    assert _pools(made).model_dump() == _pools(base).model_dump() == declared.pools.model_dump()
    for documents_ in made, base:
        (said,) = (each for each in documents_ if each["metadata"]["name"] == "kiln-declared")
        said["data"].pop("pools.yaml")
    assert made == base


def test_values_reach_every_object_that_has_them(example: Declared) -> None:
    given = values(example)
    given["cluster"]["images"] = {"services": "a:1", "gpu_consumer": "b:1"}
    given["cluster"]["kafka"]["bootstrap_servers"] = "kafka.elsewhere:9093"
    given["pools"]["default"] = {"replicas_min": 2, "replicas_max": 3}
    made = _chart(example, given, "other")
    text = yaml.safe_dump_all(made)
    assert "registry.example" not in text
    assert "kiln-kafka-bootstrap" not in text
    assert "kiln-scaler.other.svc:8085" in text
    most = {
        each["metadata"]["name"]: each["spec"]["maxReplicaCount"] for each in made if each["kind"] == "ScaledObject"
    }
    assert most == {"kiln-gpu-default": 3, "kiln-gpu-slices": 14}
    kept = {each["metadata"]["name"]: each["spec"]["fallback"] for each in made if each["kind"] == "ScaledObject"}
    assert kept["kiln-gpu-default"] == {"failureThreshold": 3, "replicas": 1, "behavior": "currentReplicas"}
    assert kept["kiln-gpu-slices"]["replicas"] == 2  # as declared
    # By these admission places work.
    assert {name: pool.replicas_max for name, pool in _pools(made).pools.items()} == {"default": 3, "slices": 14}
    assert {each["metadata"]["namespace"] for each in made} == {"other", "kafka"}
    assert {subject["namespace"] for each in made for subject in each.get("subjects", ())} == {"other"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("pools", "default", "replica_max"), 3),
        (("pools", "default", "replicas_max"), 17),  # KEDA's cap: half of the partitions
        (("pools", "slices", "replicas_max"), 1),  # its fallback is 2, which the HPA would cut
        (("pools", "defualt"), {}),
        (("cluster", "admission", "replicas"), 5),
        (("cluster", "images", "services"), "promptkiln"),
        (("cluster", "images", "services"), "a:b:c"),
        (("cluster", "images", "services"), "promptkiln:latest"),
        (("cluster", "kafka", "bootstrap_servers"), "kafka.elsewhere:9092"),  # a port that the network policies close
        (("cluster", "kafka", "bootstrap_servers"), "kafka:9093"),  # KEDA asks from a namespace of its own
        (("cluster", "store", "url"), "file:///store"),
    ],
)
def test_a_value_that_would_be_passed_over_or_break_the_rest_is_refused(
    example: Declared, found: Found, path: tuple[str, ...], value: Any
) -> None:
    schema = Draft7Validator(json.loads(helm(example, found, "0")["values.schema.json"]))
    given: dict[str, Any] = values(example)
    schema.validate(given)
    node = given
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    with pytest.raises(ValidationError):
        schema.validate(given)


@pytest.mark.parametrize("url", ["file:///elsewhere", "s3://elsewhere"])
def test_a_store_in_a_folder_stays_where_its_volume_is_mounted(declare: Declare, url: str) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["store"] = {"url": "file:///store/pictures", "claim": "pictures"}

    declared = declare(change)
    schema = Draft7Validator(json.loads(helm(declared, documents(declared), "0")["values.schema.json"]))
    given: dict[str, Any] = values(declared)
    schema.validate(given)
    given["cluster"]["store"]["url"] = url
    with pytest.raises(ValidationError):
        schema.validate(given)

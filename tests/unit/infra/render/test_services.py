from typing import Any

import pytest

from infra.render.declared import Declared
from infra.render.manifest import Manifest
from infra.render.services import admission, gate, scaler
from schemas.errors import CatalogueError
from tests.unit.infra.render.conftest import Declare

OWN_TOPIC = "default: {per_second: 1, burst: 1}\ntenants:\n  atelier: {per_second: 1, burst: 1, topic: true}\n"


def _deployment(found: list[Manifest]) -> dict[str, Any]:
    (one,) = (each for each in found if each["kind"] == "Deployment")
    spec: dict[str, Any] = one["spec"]
    return spec


def test_admission_is_killed_after_its_own_deadline(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {"KILN_ADMISSION_SERVICE_STOP_GRACE_SECONDS": "90"}

    assert _deployment(list(admission(declare())))["template"]["spec"]["terminationGracePeriodSeconds"] == 35
    assert _deployment(list(admission(declare(change))))["template"]["spec"]["terminationGracePeriodSeconds"] == 100


def test_each_service_has_the_scratch_and_the_priority_of_its_own_block(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        for name in ("admission", "gate", "scaler"):
            body["cluster"].setdefault(name, {}).update(scratch=f"{len(name)}Gi", priority_class=f"of-{name}")

    declared = declare(change, tenants=OWN_TOPIC)
    for made, name in (admission, "admission"), (gate, "gate"), (scaler, "scaler"):
        pod = _deployment(list(made(declared)))["template"]["spec"]
        (tmp,) = (each for each in pod["volumes"] if each["name"] == "tmp")
        assert tmp["emptyDir"] == {"sizeLimit": f"{len(name)}Gi"}
        assert pod["priorityClassName"] == f"of-{name}"


def test_more_admission_replicas_than_partitions_are_refused(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["admission"]["replicas"] = 5

    with pytest.raises(CatalogueError, match=r"cluster\.admission\.replicas is 5, and requests has 4 partitions"):
        list(admission(declare(change)))


def test_signing_keys_lie_where_admission_looks_for_them(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["admission"]["signing_keys"] = {"atelier/web": {"secret": "atelier", "key": "web.key"}}

    pod = _deployment(list(admission(declare(change))))["template"]["spec"]
    (signing,) = (each for each in pod["volumes"] if each["name"] == "signing")
    assert signing["projected"]["sources"] == [
        {"secret": {"name": "atelier", "items": [{"key": "web.key", "path": "atelier/web"}]}}
    ]
    (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "signing")
    assert {"name": "KILN_ADMISSION_SERVICE_SIGNING_KEYS", "value": mount["mountPath"]} in pod["containers"][0]["env"]


def test_a_tenant_that_must_sign_and_has_no_key_is_refused(declare: Declare) -> None:
    """Admission waits for every such key before it decides anything."""

    def keyed(body: dict[str, Any]) -> None:
        body["cluster"]["admission"]["signing_keys"] = {"atelier/web": {"secret": "atelier", "key": "web.key"}}

    tenants = "tenants:\n  atelier: {per_second: 1, burst: 1, signed: true}\n"
    assert list(admission(declare(keyed, tenants=tenants)))
    with pytest.raises(
        CatalogueError, match=r"tenants\.atelier must sign.* as atelier/KEY_ID: \{secret: NAME, key: KEY\}"
    ):
        list(admission(declare(tenants=tenants)))


def test_long_prompts_are_refused_only_where_there_are_tokenizers(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {"KILN_ADMISSION_PROMPT_TOKENS": "refuse"}
        body["cluster"]["models"] = {}

    with pytest.raises(CatalogueError, match="admission's image has no tokenizers"):
        list(admission(declare(change)))


def test_there_is_a_gate_where_a_tenant_has_a_topic_of_its_own(declare: Declare) -> None:
    assert list(gate(declare())) == []
    found = _deployment(list(gate(declare(tenants=OWN_TOPIC))))
    assert found["template"]["spec"]["containers"][0]["args"] == ["gate"]


def test_a_tenants_change_starts_admission_and_the_gate_anew(declare: Declare) -> None:
    def stamps(tenants: str) -> list[str]:
        declared = declare(tenants=tenants)
        return [
            _deployment(found)["template"]["metadata"]["annotations"]["promptkiln.dev/declared"]
            for found in (list(admission(declared)), list(gate(declared)), list(scaler(declared)))
        ]

    before, after = stamps(OWN_TOPIC), stamps(OWN_TOPIC.replace("per_second: 1", "per_second: 2"))
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True]


def test_how_a_pool_is_scaled_starts_only_the_scaler_anew(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["pools"]["slices"]["scaling"]["wait_seconds"] = 33

    def stamps(declared: Declared) -> list[str]:
        return [
            _deployment(found)["template"]["metadata"]["annotations"]["promptkiln.dev/declared"]
            for found in (list(admission(declared)), list(scaler(declared)))
        ]

    before, after = stamps(declare()), stamps(declare(change))
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]


def test_keda_finds_the_scaler_at_the_address_that_its_trigger_names(example: Declared) -> None:
    found = list(scaler(example))
    (service,) = (each for each in found if each["kind"] == "Service")
    container = _deployment(found)["template"]["spec"]["containers"][0]
    (port,) = service["spec"]["ports"]
    assert (service["metadata"]["name"], port["port"]) == ("kiln-scaler", 8085)
    assert {"name": port["targetPort"], "containerPort": 8085} in container["ports"]
    assert {"name": "KILN_SCALER_PORT", "value": "8085"} in container["env"]


def test_there_is_no_scaler_where_nobody_asks_it_or_it_is_elsewhere(declare: Declare) -> None:
    def by_lag(body: dict[str, Any]) -> None:
        body["pools"]["slices"]["scaling"] = {"signal": "lag", "item_seconds": 1}

    def elsewhere(body: dict[str, Any]) -> None:
        body["cluster"]["scaler"] = {"address": "scaler.elsewhere:8085"}

    assert list(scaler(declare(by_lag))) == list(scaler(declare(elsewhere))) == []


def test_services_ask_the_api_server_nothing(example: Declared) -> None:
    for found in (list(admission(example)), list(scaler(example))):
        assert _deployment(found)["template"]["spec"]["automountServiceAccountToken"] is False

"""What is rendered is what the services read: each container's environment, given to its service's own settings."""

import os
from typing import Any

import pytest
from pydantic_settings import BaseSettings

from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreSettings
from infra.render.documents import documents
from infra.scaler.settings import ScalerSettings
from schemas.deployment import DeploymentSettings
from streams.gate.settings import GateSettings
from streams.kafka.settings import KafkaSettings
from streams.settings import AdmissionServiceSettings
from tests.unit.infra.render.conftest import Declare, Found
from tests.unit.infra.render.test_services import OWN_TOPIC

_SERVICES: dict[str, type[BaseSettings]] = {
    "kiln-admission": AdmissionServiceSettings,
    "kiln-gate": GateSettings,
    "kiln-gpu-default": GpuConsumerSettings,
    "kiln-gpu-slices": GpuConsumerSettings,
    "kiln-scaler": ScalerSettings,
}


def _deployments(found: Found) -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for documents in found.values()
        for each in documents
        if each["kind"] == "Deployment"
    }


def _enter(monkeypatch: pytest.MonkeyPatch, found: Found, name: str) -> dict[str, Any]:
    """Its environment becomes ours; of a reference to a Secret the text `secret`."""
    (settings,) = (each["data"] for each in found["settings.yaml"] if each["metadata"]["name"] == "kiln-settings")
    pod = _deployments(found)[name]
    (container,) = pod["containers"]
    assert container["envFrom"] == [{"configMapRef": {"name": "kiln-settings"}}]
    for variable in list(os.environ):
        if variable.startswith(("KILN_", "KAFKA_")):
            monkeypatch.delenv(variable)
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value)
    for each in container["env"]:
        monkeypatch.setenv(each["name"], each.get("value", "secret"))
    return pod


@pytest.fixture
def all_services(declare: Declare) -> Found:
    return documents(declare(tenants=OWN_TOPIC))


@pytest.mark.parametrize("name", _SERVICES)
def test_a_service_takes_its_environment_and_answers_where_it_is_probed(
    monkeypatch: pytest.MonkeyPatch, all_services: Found, name: str
) -> None:
    pod = _enter(monkeypatch, all_services, name)
    settings: Any = _SERVICES[name]()
    assert settings.health_host == "0.0.0.0"
    assert {"name": "health", "containerPort": settings.health_port} in pod["containers"][0]["ports"]


def test_every_deployment_is_looked_at(all_services: Found) -> None:
    assert _deployments(all_services).keys() == _SERVICES.keys()


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_kafka_is_spoken_to_as_declared_and_every_file_named_is_mounted(
    monkeypatch: pytest.MonkeyPatch, declare: Declare, protocol: str
) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["kafka"]["security_protocol"] = protocol

    pod = _enter(monkeypatch, documents(declare(change)), "kiln-gpu-default")
    kafka = KafkaSettings.load()
    assert kafka.security_protocol == protocol
    assert kafka.bootstrap_servers == "kiln-kafka-bootstrap.kafka.svc:9093"
    assert (kafka.sasl_plain_username is not None) == protocol.startswith("SASL")
    assert (kafka.ssl_cafile is not None) == protocol.endswith("SSL")
    assert (kafka.ssl_certfile is not None) == (protocol == "SSL")
    mounted = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    files = {
        f"{mounted[volume['name']]}/{item['path']}"
        for volume in pod["volumes"]
        for item in volume.get("secret", {}).get("items", ())
    }
    assert files == {str(path) for path in (kafka.ssl_cafile, kafka.ssl_certfile, kafka.ssl_keyfile) if path}


def test_what_is_declared_lies_where_the_services_look(monkeypatch: pytest.MonkeyPatch, found: Found) -> None:
    pod = _enter(monkeypatch, found, "kiln-admission")
    settings = DeploymentSettings()
    maps = {each["metadata"]["name"]: each["data"] for each in found["settings.yaml"]}
    mounted = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    kept = {each["name"]: each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each}
    for file in (settings.pools, settings.tenants):
        (volume,) = (name for name, path in mounted.items() if path == str(file.parent))
        assert file.name in maps[kept[volume]]
    (volume,) = (name for name, path in mounted.items() if path == str(settings.configs))
    assert "configs.lock" in maps[kept[volume]]


def test_the_store_is_the_declared_one(monkeypatch: pytest.MonkeyPatch, declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["store"] |= {"endpoint_url": "http://minio:9000", "addressing_style": "path"}

    _enter(monkeypatch, documents(declare(change)), "kiln-gpu-default")
    store = StoreSettings()
    assert store.url == "s3://promptkiln/artifacts"
    assert (store.endpoint_url, store.region, store.addressing_style) == ("http://minio:9000", "eu-central-1", "path")


def test_a_store_in_a_folder_is_a_volume_there(monkeypatch: pytest.MonkeyPatch, declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["store"] = {"url": "file:///store/pictures", "claim": "pictures"}

    pod = _enter(monkeypatch, documents(declare(change)), "kiln-gpu-default")
    assert StoreSettings().url == "file:///store/pictures"
    assert {"name": "store", "mountPath": "/store/pictures"} in pod["containers"][0]["volumeMounts"]
    assert {"name": "store", "persistentVolumeClaim": {"claimName": "pictures"}} in pod["volumes"]


def test_a_consumer_finds_its_models_and_may_draw_its_longest_job_to_the_end(
    monkeypatch: pytest.MonkeyPatch, found: Found
) -> None:
    pod = _enter(monkeypatch, found, "kiln-gpu-default")
    settings = GpuConsumerSettings()
    mounted = {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert str(settings.models_dir) in mounted
    assert settings.pod_name
    assert settings.namespace
    # Its job of 300 s, 30 s to hand back what was drawn, and 10 s before the kill.
    assert (settings.grace_seconds, pod["terminationGracePeriodSeconds"]) == (330, 340)


def test_keda_finds_its_user_where_its_trigger_looks(found: Found) -> None:
    (proof,) = found["keda.yaml"]
    maps = {each["metadata"]["name"]: each["data"] for each in found["settings.yaml"]}
    (username,) = proof["spec"]["configMapTargetRef"]
    assert maps[username["name"]][username["key"]] == "kiln-keda"

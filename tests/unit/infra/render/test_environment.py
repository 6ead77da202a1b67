import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_settings import BaseSettings

from infra.render.declared import Declared
from infra.render.documents import documents
from infra.render.environment import OWNED, SERVICES, shared
from schemas.errors import CatalogueError
from schemas.topics import TopicSettings
from tests.unit.infra.render.conftest import Declare


def test_every_process_has_the_topics_that_were_rendered(example: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shared(example).items():
        if name.startswith("KILN_TOPICS_"):
            monkeypatch.setenv(name, value)
    assert TopicSettings() == example.catalogue.settings
    assert sum(name.startswith("KILN_TOPICS_") for name in shared(example)) == len(TopicSettings.model_fields)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "KILN_GPU_WORKER",
            r"environment\.KILN_GPU_WORKER: no service reads it; did you mean KILN_GPU_WORKERS",
        ),
        ("HTTP_PROXY_X", "no service reads it; the README has a table"),
        ("KILN_GPU_POOL", "it follows from the rest of pools.yaml"),
        ("KAFKA_BOOTSTRAP_SERVERS", "it follows from the rest of pools.yaml"),
        ("KAFKA_SASL_PLAIN_PASSWORD", "a secret is not written here"),
        ("AWS_SECRET_ACCESS_KEY", "a secret is not written here"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a secret is not written here; .* or in an overlay of yours"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a secret is not written here"),
    ],
)
def test_a_setting_that_would_be_passed_over_is_refused(declare: Declare, name: str, sentence: str) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {name: "1"}

    with pytest.raises(CatalogueError, match=sentence):
        shared(declare(change))


@pytest.mark.parametrize(
    ("name", "value"),
    [("KILN_GPU_BATCH_WAIT_SECONDS", -1), ("KAFKA_REQUEST_TIMEOUT_MS", "soon"), ("KILN_SCALER_ITEMS_MAX", 0)],
)
def test_a_value_with_which_a_service_would_not_start_is_refused(
    declare: Declare, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {name: value}

    monkeypatch.setenv("KILN_GPU_WORKERS", "-1")  # the renderer's own environment is no pod's
    with pytest.raises(CatalogueError, match=rf"^cluster\.environment\.{name}: Input should be "):
        shared(declare(change))


def test_a_setting_of_a_service_reaches_all_pods(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {"KILN_GPU_WORKERS": 2, "KILN_ADMISSION_SERVICE_ACCEPT_LOSS": False}

    wanted = {"KILN_GPU_WORKERS": "2", "KILN_ADMISSION_SERVICE_ACCEPT_LOSS": "false"}
    assert shared(declare(change)).items() >= wanted.items()


def test_spans_without_a_collector_are_refused(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {"KILN_TRACES": "otlp"}

    with pytest.raises(CatalogueError, match="spans would go to the pod itself; set OTEL_EXPORTER_OTLP_ENDPOINT"):
        shared(declare(change))


def test_logs_are_for_machines_unless_declared_otherwise(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {"KILN_LOG_FORMAT": "text"}

    assert shared(declare())["KILN_LOG_FORMAT"] == "json"
    assert shared(declare(change))["KILN_LOG_FORMAT"] == "text"


def test_what_a_container_sets_cannot_be_set_for_all(declare: Declare) -> None:
    """A container's own value overrules the shared one without a word."""

    def change(body: dict[str, Any]) -> None:
        body["cluster"]["admission"] |= {
            "signing_keys": {"a/b": {"secret": "a", "key": "b"}},
            "terms": "terms",
        }
        body["cluster"]["environment"] = {"KILN_ADMISSION_PROMPT_TOKENS": "refuse"}

    declared = declare(change)
    own = {
        each["name"]
        for found in documents(declared).values()
        for document in found
        if document["kind"] == "Deployment"
        for each in document["spec"]["template"]["spec"]["containers"][0]["env"]
        if "valueFrom" not in each
    }
    assert own <= OWNED
    assert own.isdisjoint(shared(declared))


def test_the_settings_of_every_service_are_known_to_the_renderer() -> None:
    """One that is not would be refused in cluster.environment as read by nobody: add its class to SERVICES."""
    written = {
        found[1]
        for package in ("schemas", "admission", "streams", "gpu_consumer", "infra")
        for path in Path(package).rglob("*.py")
        for found in re.finditer(r"^class (\w+)\(BaseSettings\)", path.read_text(), re.MULTILINE)
    }
    # Where the files are; the development broker, and how clients find it; of rules; what Kubernetes sets itself.
    of_no_pod = {"DeploymentSettings", "BrokerSettings", "_Surroundings", "AlertSettings", "ApiServer"}
    known = {each.__name__ for kind in SERVICES for each in kind.__mro__ if BaseSettings in each.__bases__}
    assert written - of_no_pod == known

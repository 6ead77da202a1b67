from typing import Any

import pytest

from infra.render.declared import Declared
from infra.render.policies import network_policy
from schemas.errors import CatalogueError
from tests.unit.infra.render.conftest import Declare, Found


def _ports(policy: dict[str, Any], way: str) -> set[int | str]:
    return {port["port"] for rule in policy["spec"][way] for port in rule["ports"]}


def test_a_pool_speaks_to_names_kafka_the_store_and_the_api_server_alone(example: Declared) -> None:
    found = network_policy(example, "x", "gpu-consumer", "default", stores=True, asks_kubernetes=True)
    assert _ports(found, "egress") == {53, 9093, 443, 6443}
    assert _ports(found, "ingress") == {"health"}
    assert found["spec"]["podSelector"]["matchLabels"]["promptkiln.dev/pool"] == "default"


def test_admission_speaks_to_kafka_alone_and_in_its_namespace(example: Declared) -> None:
    found = network_policy(example, "x", "admission", None)
    assert _ports(found, "egress") == {53, 9093}
    assert found["spec"]["egress"][1]["to"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}
    ]


def test_a_store_of_ones_own_and_traces_are_let_out(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["store"]["endpoint_url"] = "http://minio:9000"
        body["cluster"]["kafka"]["broker_ports"] = [9194]
        body["cluster"]["environment"] = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://tempo:4318"}

    assert _ports(network_policy(declare(change), "x", "gpu-consumer", "default", stores=True), "egress") == {
        53,
        9093,
        9194,
        9000,
        4318,
    }


def test_an_address_without_a_port_is_refused(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {"OTEL_EXPORTER_OTLP_ENDPOINT": "tempo"}

    with pytest.raises(CatalogueError, match=r"'tempo' names no port .* write http\(s\)://HOST:PORT"):
        network_policy(declare(change), "x", "admission", None)


def test_keda_and_prometheus_alone_come_in(found: Found) -> None:
    (policy,) = (each for each in found["scaler.yaml"] if each["kind"] == "NetworkPolicy")
    came = {
        (rule["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], rule["ports"][0]["port"])
        for rule in policy["spec"]["ingress"]
    }
    assert came == {("monitoring", "health"), ("keda", "grpc")}


def test_a_drained_node_takes_one_pod_of_a_pool_at_a_time(found: Found) -> None:
    budgets = [
        each
        for name in ("pool-default.yaml", "pool-slices.yaml", "admission.yaml")
        for each in found[name]
        if each["kind"] == "PodDisruptionBudget"
    ]
    assert [each["spec"]["maxUnavailable"] for each in budgets] == [1, 1, 1]
    # One that only loads, or whose store is away, holds no drain up.
    assert {each["spec"]["unhealthyPodEvictionPolicy"] for each in budgets} == {"AlwaysAllow"}


def test_an_address_that_is_none_is_refused(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["environment"] = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1"}

    with pytest.raises(CatalogueError, match=r"'http://\[::1' names no port"):
        network_policy(declare(change), "x", "admission", None)

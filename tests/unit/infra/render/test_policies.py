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
    assert _ports(found, "egress") == {53, 5353, 9093, 443, 6443}
    assert _ports(found, "ingress") == {"health"}
    assert found["spec"]["podSelector"]["matchLabels"]["promptkiln.dev/pool"] == "default"


def test_admission_speaks_to_kafka_alone_and_in_its_namespace(example: Declared) -> None:
    found = network_policy(example, "x", "admission", None)
    assert _ports(found, "egress") == {53, 5353, 9093}
    (kafka,) = (rule for rule in found["spec"]["egress"] if rule["ports"][0]["port"] == 9093)
    assert kafka["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}]


def test_names_are_asked_for_at_the_ports_of_either_kind_of_cluster(found: Found) -> None:
    """Port 53 of any address, for a node may have a cache of its own; and the one that OpenShift's pods have."""
    policies = [each for documents in found.values() for each in documents if each["kind"] == "NetworkPolicy"]
    assert len(policies) == 4
    for policy in policies:
        anywhere, openshift = policy["spec"]["egress"][:2]
        assert {(each["port"], each["protocol"]) for each in anywhere["ports"]} == {(53, "UDP"), (53, "TCP")}
        assert {(each["port"], each["protocol"]) for each in openshift["ports"]} == {(5353, "UDP"), (5353, "TCP")}
        assert "to" not in anywhere
        assert openshift["to"] == [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}}
        ]


def test_a_store_of_ones_own_and_traces_are_let_out(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["store"]["endpoint_url"] = "http://minio:9000"
        body["cluster"]["kafka"]["broker_ports"] = [9194]
        body["cluster"]["environment"] = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://tempo:4318"}

    assert _ports(network_policy(declare(change), "x", "gpu-consumer", "default", stores=True), "egress") == {
        53,
        5353,
        9093,
        9194,
        9000,
        4318,
    }


def _identity(policy: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for rule in policy["spec"]["egress"] if any("ipBlock" in peer for peer in rule.get("to", ()))]


def test_the_agent_that_proves_a_pods_own_identity_may_be_asked(declare: Declare) -> None:
    """On EKS it is at an address of the node, in clear text; nobody else at that port is reached."""

    def without_keys(body: dict[str, Any]) -> None:
        del body["cluster"]["store"]["secret"]

    (asked,) = _identity(network_policy(declare(without_keys), "x", "gpu-consumer", "default", stores=True))
    assert asked == {
        "ports": [{"port": 80, "protocol": "TCP"}],
        "to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}, {"ipBlock": {"cidr": "fd00:ec2::23/128"}}],
    }
    assert not _identity(network_policy(declare(), "x", "gpu-consumer", "default", stores=True))
    assert not _identity(network_policy(declare(without_keys), "x", "admission", None))


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

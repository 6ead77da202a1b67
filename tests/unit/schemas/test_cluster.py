"""What Kubernetes would refuse of a cluster's declaration only when it is applied is refused when it is read."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.cluster import Cluster


@pytest.mark.parametrize(
    "body",
    [
        {"namespace": "a.b"},
        {"images": {"services": "a:b:c"}},
        {"images": {"gpu_consumer": "a"}},
        {"images": {"pull_secret": ".."}},
        {"kafka": {"bootstrap_servers": "kafka:9092"}},
        {"kafka": {"bootstrap_servers": "kafka.a.svc:9092,kafka.a.svc:0"}},
        {"kafka": {"ca_secret": "../.."}},
        {"kafka": {"strimzi_cluster": "a.b"}},
        {"kafka": {"namespace": "A"}},
        {"store": {"url": "file:///a:b", "claim": "c"}},
        {"store": {"endpoint_url": "minio:9000"}},
        {"store": {"region": "eu central"}},
        {"store": {"secret": "a_b"}},
        {"store": {"url": "file:///a", "claim": "a..b"}},
        {"models": {"claim": "a" * 254}},
        {"models": {"image": "models"}},
        {"models": {"path": "/models/../etc"}},
        {"admission": {"cpu": "4Gi"}},
        {"admission": {"memory": "16m"}},
        {"admission": {"terms": "a b"}},
        {"admission": {"signing_keys": {"../..": {"secret": "a", "key": "b"}}}},
        {"admission": {"signing_keys": {"a/b": {"secret": "../..", "key": "b"}}}},
        {"admission": {"signing_keys": {"a/b": {"secret": "a", "key": ".."}}}},
        {"gate": {"cpu": "0"}},
        {"scaler": {"address": "scaler:8085"}},
        {"scaler": {"memory": "1"}},
        {"scaler": {"keda_namespace": "a.b"}},
        {"gpu_consumer": {"memory": "16GB"}},
        {"spot": {"taint": "a b"}},
        {"spot": {"node_selector": {"a b": "c"}}},
        {"spot": {"node_selector": {"a": True}}},
        {"spot": {"node_selector": {"a": "b c"}}},
        {"monitoring": {"labels": {"-a": "b"}}},
        {"monitoring": {"labels": {"app.kubernetes.io/component": "a"}}},
        {"monitoring": {"labels": {"promptkiln.dev/pool": "a"}}},
        {"monitoring": {"dashboard_labels": {"app.kubernetes.io/name": "a"}}},
        {"monitoring": {"namespace": ""}},
        {"service_account_annotations": {"a b": "c"}},
        {"service_account_annotations": {"a/b/c": "d"}},
        {"environment": {"a": "b"}},
    ],
)
def test_a_name_or_a_port_that_cannot_be_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Cluster.model_validate(body)


@pytest.mark.parametrize(
    "body",
    [
        {"models": {"claim": "a.b-c.0"}},
        {"models": {"claim": "a" * 253}},
        {"kafka": {"bootstrap_servers": "kafka.kafka.svc:1,[::1]:65535"}},
        {"scaler": {"address": "scaler.keda.svc:9"}},
        {"store": {"url": "file:///a/b_c", "claim": "c"}},
        {"spot": {"taint": "cloud.google.com/gke-spot"}},
        {"service_account_annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}},
    ],
)
def test_one_that_can_be_is_taken(body: dict[str, Any]) -> None:
    Cluster.model_validate(body)


@pytest.mark.parametrize("block", ["admission", "gate", "scaler", "gpu_consumer"])
def test_a_block_of_which_one_thing_is_said_keeps_the_rest(block: str) -> None:
    said: Any = getattr(Cluster.model_validate({block: {"cpu": "3"}}), block)
    unsaid: Any = getattr(Cluster(), block)
    assert said.model_dump() == {**unsaid.model_dump(), "cpu": "3"}

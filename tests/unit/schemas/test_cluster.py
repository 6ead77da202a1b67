"""What Kubernetes would refuse of a cluster's declaration only when it is applied is refused when it is read."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.cluster import Cluster


@pytest.mark.parametrize(
    "body",
    [
        {"models": {"claim": "a..b"}},
        {"models": {"claim": "a.-b"}},
        {"models": {"claim": "a" * 254}},
        {"kafka": {"bootstrap_servers": "kafka:99999"}},
        {"kafka": {"bootstrap_servers": "kafka:9092,kafka:0"}},
        {"scaler": {"address": "scaler:65536"}},
        {"store": {"url": "file:///a:b", "claim": "c"}},
        {"spot": {"taint": "a b"}},
        {"spot": {"taint": "-a"}},
        {"service_account_annotations": {"a b": "c"}},
        {"service_account_annotations": {"a/b/c": "d"}},
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
        {"kafka": {"bootstrap_servers": "kafka:1,[::1]:65535"}},
        {"scaler": {"address": "scaler.keda.svc:9"}},
        {"store": {"url": "file:///a/b_c", "claim": "c"}},
        {"spot": {"taint": "cloud.google.com/gke-spot"}},
        {"service_account_annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}},
    ],
)
def test_one_that_can_be_is_taken(body: dict[str, Any]) -> None:
    Cluster.model_validate(body)

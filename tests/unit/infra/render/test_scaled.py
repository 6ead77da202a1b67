from typing import Any

import pytest

from infra.render.declared import Declared
from infra.render.scaled import authentication, scaled_object
from schemas.errors import CatalogueError
from schemas.request import LANES
from tests.unit.infra.render.conftest import Declare


def _spec(declared: Declared, pool: str) -> dict[str, Any]:
    spec: dict[str, Any] = scaled_object(declared, pool, declared.pools.pools[pool])["spec"]
    return spec


def test_the_lanes_are_summed_by_their_names(example: Declared) -> None:
    """Several triggers without a formula give their maximum."""
    spec = _spec(example, "default")
    assert [trigger["name"] for trigger in spec["triggers"]] == list(LANES)
    assert spec["advanced"]["scalingModifiers"]["formula"] == "interactive + standard + bulk"


def test_each_trigger_reads_one_topic_from_its_beginning_and_forgives_no_lag(example: Declared) -> None:
    """Cases KEDA-10, KEDA-16."""
    metadata = [trigger["metadata"] for trigger in _spec(example, "default")["triggers"]]
    assert [each["topic"] for each in metadata] == [f"kiln.work.default.{lane}" for lane in LANES]
    assert {each["offsetResetPolicy"] for each in metadata} == {"earliest"}
    assert {each["excludePersistentLag"] for each in metadata} == {"false"}
    assert {each["consumerGroup"] for each in metadata} == {"kiln.gpu.default"}


def test_the_threshold_is_the_objective_over_the_seconds_of_a_job(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["pools"]["default"]["scaling"] |= {"wait_seconds": 60, "item_seconds": 2.5}

    spec = _spec(declare(change), "default")
    assert spec["advanced"]["scalingModifiers"]["target"] == "24"
    assert {trigger["metadata"]["lagThreshold"] for trigger in spec["triggers"]} == {"24"}


def test_fast_out_and_slow_in(example: Declared) -> None:
    """Case KEDA-13."""
    behaviour = _spec(example, "default")["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behaviour["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert behaviour["scaleDown"]["stabilizationWindowSeconds"] == 600
    assert behaviour["scaleUp"]["policies"][0]["value"] > behaviour["scaleDown"]["policies"][0]["value"]


def test_a_pool_sleeps_when_nothing_came_for_its_cooldown(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["pools"]["default"]["scaling"] |= {"cooldown_seconds": 77, "polling_seconds": 7}

    spec = _spec(declare(change), "default")
    assert (spec["cooldownPeriod"], spec["pollingInterval"]) == (77, 7)
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 8)


@pytest.mark.parametrize(("pool", "kept"), [("default", "currentReplicas"), ("slices", "static")])
def test_without_an_answer_replicas_stay_or_are_as_declared(example: Declared, pool: str, kept: str) -> None:
    fallback = _spec(example, pool)["fallback"]
    assert fallback["behavior"] == kept
    assert fallback["replicas"] > 0, "with 0 KEDA lays a busy pool to sleep when nobody has answered for its cooldown"


def test_gpu_seconds_are_asked_of_the_scaler(example: Declared) -> None:
    (trigger,) = _spec(example, "slices")["triggers"]
    assert trigger["type"] == "external-push"
    assert trigger["metadata"] == {
        "scalerAddress": "kiln-scaler.promptkiln.svc:8085",
        "pool": "slices",
        "targetGpuSeconds": "120",
        "activationGpuSeconds": "0",
    }


def test_kedas_password_is_a_reference(example: Declared) -> None:
    found = authentication(example)
    assert found is not None
    assert found["spec"]["secretTargetRef"] == [
        {"parameter": "password", "name": "kiln-keda", "key": "password"},
        {"parameter": "ca", "name": "kiln-cluster-ca-cert", "key": "ca.crt"},
    ]
    assert _spec(example, "default")["triggers"][0]["authenticationRef"] == {"name": found["metadata"]["name"]}


@pytest.mark.parametrize(
    ("protocol", "said", "proven_by"),
    [
        ("PLAINTEXT", {}, {}),
        ("SSL", {"tls": "enable"}, {"ca": "ca.crt", "cert": "user.crt", "key": "user.key"}),
        ("SASL_PLAINTEXT", {"sasl": "scram_sha512"}, {"password": "password"}),
        ("SASL_SSL", {"sasl": "scram_sha512", "tls": "enable"}, {"ca": "ca.crt", "password": "password"}),
    ],
)
def test_keda_speaks_to_kafka_as_the_pods_do(
    declare: Declare, protocol: str, said: dict[str, str], proven_by: dict[str, str]
) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["kafka"]["security_protocol"] = protocol

    declared = declare(change)
    for trigger in _spec(declared, "default")["triggers"]:
        assert {key: value for key, value in trigger["metadata"].items() if key in ("sasl", "tls")} == said
    proof = authentication(declared)
    taken = {} if proof is None else {each["parameter"]: each["key"] for each in proof["spec"]["secretTargetRef"]}
    assert taken == proven_by


def test_where_kafka_asks_nobody_keda_proves_nothing(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["kafka"]["security_protocol"] = "PLAINTEXT"

    declared = declare(change)
    assert authentication(declared) is None
    assert all("authenticationRef" not in trigger for trigger in _spec(declared, "default")["triggers"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"in_window_seconds": 30}, "pools.default.scaling.in_window_seconds is 30, below load_seconds 90"),
        (
            {"wait_seconds": 1e9, "item_seconds": 1e-6},
            "asks for a lagThreshold of 1000000000000000; lower wait_seconds",
        ),
        ({"signal": "gpu_seconds", "wait_seconds": 0.0005}, "scaling.wait_seconds is 0.0005; .* 0.001 s or more"),
        ({"fallback_replicas": 9}, "fallback_replicas is 9, above replicas_max 8; lower it"),
    ],
)
def test_what_keda_would_do_otherwise_is_refused(declare: Declare, changes: dict[str, Any], sentence: str) -> None:
    def change(body: dict[str, Any]) -> None:
        body["pools"]["default"]["scaling"] |= changes

    with pytest.raises(CatalogueError, match=sentence):
        _spec(declare(change), "default")

from typing import Any

import pytest

from infra.render.declared import Declared
from infra.render.gpu import gpu_deployment
from schemas.errors import CatalogueError
from tests.unit.infra.render.conftest import Declare


def _pod(declared: Declared, pool: str = "default") -> dict[str, Any]:
    found: dict[str, Any] = gpu_deployment(declared, pool, declared.pools.pools[pool])["spec"]["template"]["spec"]
    return found


def _env(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}


def _changed(declare: Declare, **changes: Any) -> Declared:
    def change(body: dict[str, Any]) -> None:
        body["pools"]["default"] |= changes

    return declare(change)


def test_a_pod_has_one_card_of_its_product(example: Declared) -> None:
    pod = _pod(example)
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_a_slice_is_taken_instead_of_a_card(example: Declared) -> None:
    limits = _pod(example, "slices")["containers"][0]["resources"]["limits"]
    assert limits == {"memory": "16Gi", "nvidia.com/mig-1g.10gb": "1"}


def test_a_claim_is_taken_instead_of_a_resource(declare: Declare) -> None:
    pod = _pod(_changed(declare, resource_claim_template="h200"))
    assert pod["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "h200"}]
    resources = pod["containers"][0]["resources"]
    assert resources["claims"] == [{"name": "gpu"}]
    assert set(resources["limits"]) == {"memory"}
    assert "nodeSelector" not in pod


def test_a_pool_without_a_card_draws_on_the_cpu_of_any_node(declare: Declare) -> None:
    pod = _pod(_changed(declare, gpu_product="cpu"))
    assert "nodeSelector" not in pod
    assert "tolerations" not in pod
    assert _env(pod)["KILN_GPU_DEVICE"] == "cpu"


def test_a_card_is_asked_for_so_that_a_missing_driver_is_no_silent_cpu(example: Declared) -> None:
    assert _env(_pod(example))["KILN_GPU_DEVICE"] == "cuda"


@pytest.mark.parametrize("load_seconds", [1, 90, 2000])
def test_the_start_is_given_more_than_the_measured_load(declare: Declare, load_seconds: float) -> None:
    declared = _changed(declare, load_seconds=load_seconds, scaling={"in_window_seconds": 2500})
    pod = _pod(declared)
    probe = pod["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 3 * load_seconds
    assert int(_env(pod)["KILN_GPU_ENGINE_START_SECONDS_MAX"]) >= max(900, 3 * load_seconds)


def test_no_probe_restarts_what_only_waits_for_others(example: Declared) -> None:
    """/readyz also waits for Kafka, the store and the card's health."""
    run = _pod(example)["containers"][0]
    assert run["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {run[each]["httpGet"]["path"] for each in ("startupProbe", "livenessProbe")} == {"/livez"}


def test_a_pod_that_is_asked_to_stop_may_finish_the_longest_job(declare: Declare) -> None:
    """Case KEDA-11."""
    pod = _pod(_changed(declare, job_seconds_max=1000))
    assert int(_env(pod)["KILN_GPU_GRACE_SECONDS"]) > 1000
    assert pod["terminationGracePeriodSeconds"] > int(_env(pod)["KILN_GPU_GRACE_SECONDS"])


def test_a_pod_on_a_node_that_may_go_drains_within_its_notice(example: Declared) -> None:
    pod = _pod(example, "slices")
    assert pod["terminationGracePeriodSeconds"] == example.cluster.spot.notice_seconds
    assert int(_env(pod)["KILN_GPU_GRACE_SECONDS"]) < pod["terminationGracePeriodSeconds"]
    assert pod["nodeSelector"]["karpenter.sh/capacity-type"] == "spot"


def test_a_node_selector_of_spot_nodes_that_would_take_another_card_is_refused(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["spot"] = {"node_selector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}

    with pytest.raises(CatalogueError, match=r"spot\.node_selector has nvidia\.com/gpu\.product, .* take it out"):
        _pod(declare(change), "slices")


def test_a_tainted_node_that_may_go_is_tolerated(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["spot"] = {"taint": "cloud.google.com/gke-spot", "notice_seconds": 25}

    pod = _pod(declare(change), "slices")
    assert "cloud.google.com/gke-spot" in {each["key"] for each in pod["tolerations"]}
    assert pod["terminationGracePeriodSeconds"] == 25


def test_a_rollout_needs_no_card_more(example: Declared) -> None:
    """Case KEDA-08: one pod more than there are partitions costs a rebalance, and one more than cards never starts."""
    strategy = gpu_deployment(example, "default", example.pools.pools["default"])["spec"]["strategy"]
    assert strategy["rollingUpdate"]["maxSurge"] == 0


def test_nobody_is_root_and_nothing_of_the_image_can_be_written(example: Declared) -> None:
    pod = _pod(example)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_what_a_pod_may_write_is_its_own_and_has_an_end(declare: Declare) -> None:
    """An emptyDir without a limit takes the node's disk from everybody on it."""

    def change(body: dict[str, Any]) -> None:
        body["cluster"]["gpu_consumer"] = {"scratch": "80Gi"}

    for declared, size in (declare(), "32Gi"), (declare(change), "80Gi"):
        (tmp,) = (each for each in _pod(declared)["volumes"] if "emptyDir" in each)
        assert tmp == {"name": "tmp", "emptyDir": {"sizeLimit": size}}


def test_a_runtime_and_a_priority_are_those_of_the_cluster(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["gpu_consumer"] = {"runtime_class": "nvidia", "priority_class": "pictures"}
        body["pools"]["default"]["gpu_product"] = "cpu"

    declared = declare(change)
    assert (_pod(declared, "slices")["runtimeClassName"], _pod(declared, "slices")["priorityClassName"]) == (
        "nvidia",
        "pictures",
    )
    assert "runtimeClassName" not in _pod(declared)  # one that has no card
    assert not {"runtimeClassName", "priorityClassName"} & _pod(declare()).keys()


def test_a_password_is_a_reference(example: Declared) -> None:
    (password,) = (
        each for each in _pod(example)["containers"][0]["env"] if each["name"] == "KAFKA_SASL_PLAIN_PASSWORD"
    )
    assert password["valueFrom"] == {"secretKeyRef": {"name": "kiln-gpu-consumer-default", "key": "password"}}


def test_replicas_are_kedas(example: Declared) -> None:
    """An apply with a number in it would take KEDA's back."""
    assert "replicas" not in gpu_deployment(example, "default", example.pools.pools["default"])["spec"]


def test_what_a_consumer_does_not_read_starts_none_anew(declare: Declare) -> None:
    """Each start is a load of models."""

    def change(body: dict[str, Any]) -> None:
        body["pools"]["slices"]["price_usd_per_hour"] = 10
        body["pools"]["default"] |= {"replicas_max": 2, "partitions": 64, "scaling": {"in_window_seconds": 1000}}

    def own(body: dict[str, Any]) -> None:
        body["cluster"]["store"]["url"] = "s3://elsewhere/artifacts"

    def stamp(declared: Declared) -> str:
        found = gpu_deployment(declared, "default", declared.pools.pools["default"])
        return str(found["spec"]["template"]["metadata"]["annotations"])

    assert stamp(declare()) == stamp(declare(change)) != stamp(declare(own))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gpu_product": "NVIDIA H200"}, "write the value of nvidia.com/gpu.product .* such as NVIDIA-H200"),
        ({"gpu_product": "NVIDIA/H200@x"}, "write the value of nvidia.com/gpu.product .* such as NVIDIA-H200-x"),
        ({"gpu_product": "_H200"}, "such as H200"),
        ({"gpu_product": ""}, "such as NVIDIA-H200"),
        ({"job_seconds_max": 1e6}, "pools.default.job_seconds_max is 1e\\+06; .* lower it"),
        ({"gpu_product": "cpu", "mig_profile": "1g.10gb"}, "a pool on 'cpu' has no card to take"),
    ],
)
def test_what_kubernetes_would_leave_without_a_node_is_refused(
    declare: Declare, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CatalogueError, match=sentence):
        _pod(_changed(declare, **changes))


@pytest.mark.parametrize("path", ["/tmp", "/tmp/", "/etc/kiln/configs"])
def test_two_things_at_one_place_of_a_pod_are_refused(declare: Declare, path: str) -> None:
    def models(body: dict[str, Any]) -> None:
        body["cluster"]["models"]["path"] = path

    def store(body: dict[str, Any]) -> None:
        body["cluster"]["store"] = {"url": f"file://{path}", "claim": "pictures"}

    for change in (models, store):
        with pytest.raises(CatalogueError, match=r"two things would be mounted at .*; change cluster\.models\.path or"):
            _pod(declare(change))

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.render.declared import Declared, read_declared
from infra.render.documents import documents
from infra.render.kustomize import kustomize
from infra.render.manifest import Manifest
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError
from schemas.pools import Pools
from tests.unit.infra.render.conftest import EXAMPLE, Declare, Found
from tests.unit.infra.render.test_services import OWN_TOPIC

OVERLAYS = ("base", "overlays/development", "overlays/production")


def _all(declared: Declared) -> list[Manifest]:
    return [document for found in documents(declared).values() for document in found]


def test_the_same_declarations_give_the_same_bytes() -> None:
    read = (read_declared(DeploymentSettings(pools=EXAMPLE)) for _ in range(2))
    once, again = (kustomize(declared, documents(declared)) for declared in read)
    assert list(once.items()) == list(again.items())


def test_a_pool_has_everything_that_runs_scales_guards_and_watches_it(found: Found) -> None:
    for pool in ("default", "slices"):
        made = found[f"pool-{pool}.yaml"]
        assert {each["metadata"]["name"] for each in made} == {f"kiln-gpu-{pool}"}
        assert [each["kind"] for each in made] == [
            "ServiceAccount",
            "Role",
            "RoleBinding",
            "Deployment",
            "ScaledObject",
            "PodDisruptionBudget",
            "NetworkPolicy",
            "PodMonitor",
        ]


def test_no_two_objects_have_one_name(declare: Declare) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in _all(declare(tenants=OWN_TOPIC))
    ]
    assert len(names) == len(set(names))


def test_every_selector_finds_the_pods_of_its_deployment_alone(declare: Declare) -> None:
    made = _all(declare(tenants=OWN_TOPIC))
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in made if each["kind"] == "Deployment"]
    assert len(pods) == 5
    for each in made:
        spec = each.get("spec", {})
        wanted = spec.get("podSelector") or spec.get("selector")
        if wanted is None:
            continue
        labels = wanted.get("matchLabels", wanted)
        assert sum(labels.items() <= pod.items() for pod in pods) == 1, each["kind"]


def test_no_secret_is_rendered(found: Found) -> None:
    """Secrets by reference only: none is made, and no variable with such a name has a value."""
    for each in itertools.chain.from_iterable(found.values()):
        assert each["kind"] != "Secret"
        if each["kind"] == "Deployment":
            for variable in each["spec"]["template"]["spec"]["containers"][0]["env"]:
                if re.search("PASSWORD|SECRET|ACCESS_KEY", variable["name"]):
                    assert "value" not in variable


def test_the_pods_read_what_was_declared(example: Declared, found: Found) -> None:
    maps = {each["metadata"]["name"]: each["data"] for each in found["settings.yaml"]}
    assert yaml.safe_load(maps["kiln-declared"]["pools.yaml"]) == yaml.safe_load(example.pools_text)
    assert set(maps["kiln-configs"]) >= {"shapes.yaml", "configs.lock"}


def test_what_prometheus_says_of_a_consumers_pod_has_the_name_of_its_pool(found: Found) -> None:
    (monitor,) = (each for each in found["pool-slices.yaml"] if each["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is True  # admission's own `pool` is the one that it speaks of
    assert endpoint["relabelings"] == [{"targetLabel": "pool", "replacement": "slices"}]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize("name", ["-a", "a-"])
def test_a_pool_that_kubernetes_cannot_name_is_refused(declare: Declare, name: str) -> None:
    def change(body: dict[str, Any]) -> None:
        body["pools"][name] = body["pools"].pop("slices")

    with pytest.raises(CatalogueError, match=f"pools.{name}: .* rename the pool"):
        documents(declare(change))


def test_too_many_configurations_for_a_config_map_are_refused(example: Declared) -> None:
    huge = Declared(
        pools=example.pools,
        catalogue=example.catalogue,
        configs=example.configs,
        config_files={**example.config_files, "huge.yaml": "x" * (1 << 20)},
        pools_text=example.pools_text,
        tenants_text=example.tenants_text,
    )
    with pytest.raises(CatalogueError, match=r"ConfigMap kiln-configs would have .* move retired versions out"):
        documents(huge)


def test_kustomize_builds_the_base_and_both_overlays(tmp_path: Path, example: Declared, found: Found) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on this machine; it builds the overlays")
    for name, text in kustomize(example, found).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    built = {}
    for overlay in OVERLAYS:
        done = subprocess.run(
            [kubectl, "kustomize", str(tmp_path / overlay)], capture_output=True, check=True, text=True, timeout=120
        )
        built[overlay] = list(yaml.safe_load_all(done.stdout))
    kinds = {overlay: [each["kind"] for each in made] for overlay, made in built.items()}
    assert sorted(kinds["base"]) == sorted(each["kind"] for each in itertools.chain(*found.values()))
    assert kinds["overlays/production"] == kinds["base"]
    assert set(kinds["base"]) - set(kinds["overlays/development"]) == {"PodMonitor", "PrometheusRule"}
    scaled = [each["spec"] for each in built["overlays/development"] if each["kind"] == "ScaledObject"]
    assert [(each["minReplicaCount"], each["maxReplicaCount"]) for each in scaled] == [(0, 1), (0, 1)]
    (said,) = (each for each in built["overlays/development"] if each["metadata"]["name"] == "kiln-declared")
    pools = Pools.model_validate(yaml.safe_load(said["data"]["pools.yaml"])).pools  # admission places work by it
    assert [(pool.replicas_min, pool.replicas_max) for pool in pools.values()] == [(0, 1), (0, 1)]


def test_what_takes_requests_stands_on_several_nodes_and_in_several_zones(example: Declared, found: Found) -> None:
    """A pod with a constraint of its own has none of the scheduler's defaults any more: hosts must be named, too."""
    overlay = yaml.safe_load(kustomize(example, found)["overlays/production/kustomization.yaml"])
    (patch,) = overlay["patches"]
    assert patch["target"]["labelSelector"] == "app.kubernetes.io/component=admission"
    (step,) = yaml.safe_load(patch["patch"])
    assert [each["topologyKey"] for each in step["value"]] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert {each["whenUnsatisfiable"] for each in step["value"]} == {"ScheduleAnyway"}
    # Pods that a rollout takes away do not count: new ones would all stand where few of the old did.
    assert [each["matchLabelKeys"] for each in step["value"]] == [["pod-template-hash"]] * 2

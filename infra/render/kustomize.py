"""The documents as a Kustomize base, and two overlays of it."""

from collections.abc import Mapping
from typing import Any

from infra.render.container import DECLARED
from infra.render.declared import Declared
from infra.render.manifest import Manifest, selector, to_yaml
from infra.render.monitors import OPERATORS

_KIND = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
_BASE = ["../../base"]
_SPREAD = ("admission", "gate")
# Both: with constraints of its own a pod has those no more that the scheduler has by default.
_OVER = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
_COMPONENT = "app.kubernetes.io/component"


def kustomize(declared: Declared, found: Mapping[str, list[Manifest]]) -> dict[str, str]:
    """Files by their paths below the folder `kustomize`."""
    made = [document for each in found.values() for document in each]
    files = {f"base/{path}": to_yaml(each) for path, each in found.items()}
    files["base/kustomization.yaml"] = to_yaml([{**_KIND, "resources": sorted(found)}])
    files["overlays/development/kustomization.yaml"] = to_yaml([_development(declared, made)])
    files["overlays/production/kustomization.yaml"] = to_yaml([_production(made)])
    return files


def _development(declared: Declared, made: list[Manifest]) -> Manifest:
    """A small cluster: one of each, at most one GPU a pool, and no Prometheus operator. pools.yaml says so, too, since
    admission places work by it."""
    one = {"/spec/minReplicaCount": 0, "/spec/maxReplicaCount": 1, "/spec/fallback/replicas": 1}
    body = declared.pools_body()
    for pool in body["pools"].values():
        pool |= {"replicas_min": 0, "replicas_max": 1}
    patches = [
        _patch({"kind": "Deployment", "labelSelector": f"{_COMPONENT} in (admission, gate)"}, {"/spec/replicas": 1}),
        _patch({"kind": "ScaledObject"}, one),
        _patch({"kind": "ConfigMap", "name": DECLARED}, {"/data/pools.yaml": to_yaml([body])}),
    ]
    apis = {document["kind"]: document["apiVersion"] for document in made}
    for kind in (kind for kind in OPERATORS if kind in apis):
        removed = {"$patch": "delete", "apiVersion": apis[kind], "kind": kind, "metadata": {"name": "any"}}
        patches.append({"target": {"kind": kind}, "patch": to_yaml([removed])})
    return {**_KIND, "resources": _BASE, "patches": patches}


def _production(made: list[Manifest]) -> Manifest:
    """The base, and what takes requests stands in several zones and on several nodes, where there are several."""
    there = {document["metadata"]["labels"].get(_COMPONENT) for document in made}
    patches = [
        _patch(
            {"kind": "Deployment", "labelSelector": f"{_COMPONENT}={component}"},
            {"/spec/template/spec/topologySpreadConstraints": [_spread(component, key) for key in _OVER]},
            "add",
        )
        for component in _SPREAD
        if component in there
    ]
    return {**_KIND, "resources": _BASE, "patches": patches}


def _spread(component: str, key: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(component)},
        "matchLabelKeys": ["pod-template-hash"],  # not by where the pods stand that a rollout takes away
    }


def _patch(target: dict[str, str], values: Mapping[str, Any], operation: str = "replace") -> dict[str, Any]:
    """A path that is not there is an error of kustomize, and no silence."""
    steps = [{"op": operation, "path": path, "value": value} for path, value in values.items()]
    return {"target": target, "patch": to_yaml(steps, apart=False)}

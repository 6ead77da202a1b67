"""Admission, the gate and the external scaler as Deployments: no card, no state of their own."""

import math
from collections.abc import Iterator
from typing import Any

from pydantic_settings import BaseSettings

from infra.render.container import container, deployment, pod, requested, volumes
from infra.render.declared import Declared
from infra.render.environment import identity, shared
from infra.render.manifest import Manifest, labels_of, manifest, selector
from infra.render.names import ADMISSION, GATE, GRPC, SCALER, SCALER_PORT
from infra.render.rbac import service_account
from infra.scaler.settings import ScalerSettings
from schemas.cluster import Resources
from schemas.errors import CatalogueError
from streams.gate.settings import GateSettings
from streams.settings import AdmissionServiceSettings

_START_SECONDS = 60.0  # Python's own start on a node that has just pulled the image
_MARGIN_SECONDS = 10  # between the service's own deadline and the kill
_SIGNING_AT = "/etc/kiln/signing"
_TERMS_AT = "/etc/kiln/terms"
_ANYWHERE = "0.0.0.0"  # noqa: S104 - inside a pod, behind its network policy


def admission(declared: Declared) -> Iterator[Manifest]:
    wanted, partitions = declared.cluster.admission, declared.catalogue.requests_partitions
    if wanted.replicas > partitions:
        raise CatalogueError(
            f"cluster.admission.replicas is {wanted.replicas}, and requests has {partitions} partitions: the others "
            "would idle; lower it"
        )
    keyed = {path.split("/")[0] for path in wanted.signing_keys}
    if without := sorted(declared.signed - keyed):
        raise CatalogueError(
            f"tenants.{without[0]} must sign, and admission would decide nothing of anybody without a key of it; name "
            f"one in cluster.admission.signing_keys, as {without[0]}/KEY_ID: {{secret: NAME, key: KEY}}"
        )
    env = _health("KILN_ADMISSION_SERVICE", 8081)
    kept, mounts = volumes(declared, "admission", wanted)
    if wanted.signing_keys:
        env.append({"name": "KILN_ADMISSION_SERVICE_SIGNING_KEYS", "value": _SIGNING_AT})
        sources = [
            {"secret": {"name": each.secret, "items": [{"key": each.key, "path": path}]}}
            for path, each in sorted(wanted.signing_keys.items())
        ]
        kept.append({"name": "signing", "projected": {"sources": sources}})
        mounts.append({"name": "signing", "mountPath": _SIGNING_AT, "readOnly": True})
    if wanted.terms:
        env.append({"name": "KILN_ADMISSION_POLICY_LIST_FILE", "value": f"{_TERMS_AT}/terms.txt"})
        kept.append({"name": "terms", "configMap": {"name": wanted.terms}})
        mounts.append({"name": "terms", "mountPath": _TERMS_AT, "readOnly": True})
    if declared.cluster.environment.get("KILN_ADMISSION_PROMPT_TOKENS") == "refuse":
        _with_tokenizers(declared, env, kept, mounts)
    yield service_account(declared, ADMISSION, "admission", None, asks=False)
    yield _service(
        declared,
        ADMISSION,
        "admission",
        ["admission", "run"],
        env=env,
        kept=kept,
        mounts=mounts,
        resources=wanted,
        replicas=wanted.replicas,
        grace=_grace(declared, AdmissionServiceSettings),
        reads=[declared.pools_of_admission(), declared.tenants_text, str(dict(declared.config_files))],
    )


def gate(declared: Declared) -> Iterator[Manifest]:
    """Nothing where no tenant has a topic of its own: it would refuse to start."""
    if not declared.catalogue.own_topics:
        return
    kept, mounts = volumes(declared, "gate", declared.cluster.gate)
    yield service_account(declared, GATE, "gate", None, asks=False)
    yield _service(
        declared,
        GATE,
        "gate",
        ["gate"],
        env=_health("KILN_GATE", 8083),
        kept=kept,
        mounts=mounts,
        resources=declared.cluster.gate,
        replicas=declared.cluster.gate.replicas,
        grace=_grace(declared, GateSettings),
        reads=[declared.tenants_text],
    )


def scaler(declared: Declared) -> Iterator[Manifest]:
    """Nothing where no pool asks it, or where it runs elsewhere."""
    asked = any(pool.scaling.signal == "gpu_seconds" for pool in declared.pools.pools.values())
    if not asked or declared.cluster.scaler.address is not None:
        return
    kept, mounts = volumes(declared, "scaler", declared.cluster.scaler)
    env = [*_health("KILN_SCALER", 8084), {"name": "KILN_SCALER_HOST", "value": _ANYWHERE}]
    yield service_account(declared, SCALER, "scaler", None, asks=False)
    found = _service(
        declared,
        SCALER,
        "scaler",
        ["scaler"],
        env=[*env, {"name": "KILN_SCALER_PORT", "value": str(SCALER_PORT)}],
        kept=kept,
        mounts=mounts,
        resources=declared.cluster.scaler,
        replicas=1,
        grace=_grace(declared, ScalerSettings),
        reads=[str(declared.pools.pools), str(dict(declared.config_files))],
    )
    run = found["spec"]["template"]["spec"]["containers"][0]
    run["ports"].append({"name": GRPC, "containerPort": SCALER_PORT})
    yield found
    yield manifest(
        "v1",
        "Service",
        SCALER,
        declared.cluster.namespace,
        labels_of("scaler"),
        spec={
            "selector": selector("scaler"),
            "ports": [{"name": GRPC, "port": SCALER_PORT, "targetPort": GRPC, "appProtocol": "kubernetes.io/h2c"}],
        },
    )


def _service(
    declared: Declared,
    name: str,
    component: str,
    args: list[str],
    *,
    env: list[dict[str, Any]],
    kept: list[dict[str, Any]],
    mounts: list[dict[str, Any]],
    resources: Resources,
    replicas: int,
    grace: int,
    reads: list[str],
) -> Manifest:
    ports = [int(each["value"]) for each in env if each["name"].endswith("_HEALTH_PORT")]
    run = container(
        component,
        args,
        image=declared.cluster.images.services,
        port=ports[0],
        env=[*env, *identity(declared, component)],
        mounts=mounts,
        start_seconds=_START_SECONDS,
        resources=requested(resources),
    )
    template = pod(
        declared,
        component,
        None,
        resources=resources,
        reads=[str(shared(declared)), *reads],
        serviceAccountName=name,
        automountServiceAccountToken=False,
        terminationGracePeriodSeconds=grace,
        containers=[run],
        volumes=kept,
    )
    return deployment(declared, name, component, None, replicas=replicas, template=template)


def _health(prefix: str, port: int) -> list[dict[str, Any]]:
    return [
        {"name": f"{prefix}_HEALTH_HOST", "value": _ANYWHERE},
        {"name": f"{prefix}_HEALTH_PORT", "value": str(port)},
    ]


def _with_tokenizers(
    declared: Declared, env: list[dict[str, Any]], kept: list[dict[str, Any]], mounts: list[dict[str, Any]]
) -> None:
    """Prompts that are too long are refused only where tokenizers are read, and those lie beside the weights."""
    models = declared.cluster.models
    if models.claim is None and models.image is None:
        raise CatalogueError(
            "cluster.environment.KILN_ADMISSION_PROMPT_TOKENS is refuse, and admission's image has no tokenizers; give "
            "cluster.models a claim or an image"
        )
    source: dict[str, Any] = {"image": {"reference": models.image}}
    if models.claim:
        source = {"persistentVolumeClaim": {"claimName": models.claim, "readOnly": True}}
    env.append({"name": "KILN_ADMISSION_SERVICE_TOKENIZERS", "value": models.path})
    kept.append({"name": "models", **source})
    mounts.append({"name": "models", "mountPath": models.path, "readOnly": True})


def _grace(declared: Declared, kind: type[BaseSettings]) -> int:
    """The kill comes after the service's own deadline, which may be set for all."""
    name = f"{kind.model_config.get('env_prefix')}STOP_GRACE_SECONDS"
    told = declared.cluster.environment.get(name, kind.model_fields["stop_grace_seconds"].default)
    try:
        return math.ceil(float(told)) + _MARGIN_SECONDS
    except ValueError as error:
        raise CatalogueError(f"cluster.environment.{name} is {told!r}; write seconds") from error

"""What the containers of all services have alike: no root, no writable root file system, probes of the health page."""

import math
from collections import Counter
from collections.abc import Sequence
from posixpath import normpath
from typing import Any

from infra.render.declared import Declared
from infra.render.environment import AUTHORITY_AT, CERTIFICATE_AT, CONFIGS_AT, DECLARED_AT, user_of
from infra.render.manifest import Manifest, digest, labels_of, manifest, selector
from schemas.cluster import Resources
from schemas.errors import CatalogueError

SETTINGS, DECLARED, CONFIGS = "kiln-settings", "kiln-declared", "kiln-configs"
HEALTH = "health"
USER = 10001  # of the images: any that is not root and owns nothing
_PROBE_SECONDS = 5
_TIMEOUT_SECONDS = 5
_LIVE_FAILURES = 6  # half a minute in which the event loop answers nothing


def container(
    name: str,
    args: Sequence[str],
    *,
    image: str,
    port: int,
    env: Sequence[dict[str, Any]],
    mounts: Sequence[dict[str, Any]],
    start_seconds: float,
    resources: dict[str, Any],
) -> dict[str, Any]:
    """`start_seconds`: until the health page may be expected to answer at all.

    The startup probe asks /livez: /readyz also waits for Kafka, the store and the card, and a restart while one of
    those is away would only load the models again.
    """
    places = Counter(normpath(each["mountPath"]) for each in mounts)
    for place, count in places.items():
        if count > 1:
            raise CatalogueError(
                f"two things would be mounted at {place}; change cluster.models.path or the folder of cluster.store.url"
            )
    return {
        "name": name,
        "image": image,
        "command": ["kiln"],
        "args": list(args),
        "envFrom": [{"configMapRef": {"name": SETTINGS}}],
        "env": list(env),
        "ports": [{"name": HEALTH, "containerPort": port}],
        "startupProbe": _probe("/livez", failures=math.ceil(start_seconds / _PROBE_SECONDS)),
        "readinessProbe": _probe("/readyz", failures=1),
        "livenessProbe": _probe("/livez", failures=_LIVE_FAILURES),
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": list(mounts),
    }


def _probe(path: str, *, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": HEALTH},
        "periodSeconds": _PROBE_SECONDS,
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "failureThreshold": failures,
    }


def requested(resources: Resources, **limits: str) -> dict[str, Any]:
    """Memory is a limit, too: beyond it the node kills. The CPU is not: a slice of it that is free costs nobody."""
    return {
        "requests": {"cpu": resources.cpu, "memory": resources.memory},
        "limits": {"memory": resources.memory, **limits},
    }


def volumes(declared: Declared, role: str, resources: Resources) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes of every service, and where they are mounted. A Secret gives the keys that are named and no other."""
    found: list[tuple[str, str, dict[str, Any]]] = [
        ("tmp", "/tmp", {"emptyDir": {"sizeLimit": resources.scratch}}),  # noqa: S108 - of the pod alone
        ("declared", DECLARED_AT, {"configMap": {"name": DECLARED}}),
        ("configs", CONFIGS_AT, {"configMap": {"name": CONFIGS}}),
    ]
    kafka, store = declared.cluster.kafka, declared.cluster.store
    if kafka.authority:
        found.append(("authority", AUTHORITY_AT, _secret(kafka.authority, "ca.crt")))
    if kafka.security_protocol == "SSL":
        found.append(("certificate", CERTIFICATE_AT, _secret(user_of(declared, role), "user.crt", "user.key")))
    if store.claim:
        found.append(
            ("store", store.url.removeprefix("file://"), {"persistentVolumeClaim": {"claimName": store.claim}})
        )
    mounts = [
        {"name": name, "mountPath": path} | ({} if name in ("tmp", "store") else {"readOnly": True})
        for name, path, _ in found
    ]
    return [{"name": name, **source} for name, _, source in found], mounts


def _secret(name: str, *keys: str) -> dict[str, Any]:
    return {"secret": {"secretName": name, "items": [{"key": key, "path": key} for key in keys]}}


def pod(
    declared: Declared, component: str, pool: str | None, *, resources: Resources, reads: Sequence[str], **spec: Any
) -> dict[str, Any]:
    """The template of a pod. `reads` is what it reads once, at its start: a change of it rolls the pods."""
    secret = declared.cluster.images.pull_secret
    return {
        "metadata": {
            "labels": selector(component, pool),
            "annotations": {"promptkiln.dev/declared": digest(*reads)},
        },
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",  # and not every file of a volume of models, at each start
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **({"imagePullSecrets": [{"name": secret}]} if secret else {}),
            "enableServiceLinks": False,
            **({"priorityClassName": resources.priority_class} if resources.priority_class else {}),
            **spec,
        },
    }


def deployment(declared: Declared, name: str, component: str, pool: str | None, **spec: Any) -> Manifest:
    return manifest(
        "apps/v1",
        "Deployment",
        name,
        declared.cluster.namespace,
        labels_of(component, pool),
        spec={"selector": {"matchLabels": selector(component, pool)}, **spec},
    )

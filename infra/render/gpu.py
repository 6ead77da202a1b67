"""A pool of GPU consumers as a Deployment: one card, time to load, and time to finish."""

import math
import re
from typing import Any

from infra.render.container import container, deployment, pod, requested, volumes
from infra.render.declared import Declared
from infra.render.environment import identity, shared, store_access
from infra.render.manifest import Manifest, gpu_name
from schemas.errors import CatalogueError
from schemas.pools import Pool

COMPONENT = "gpu-consumer"
PORT = 8082
CPU = "cpu"  # the product of a pool without a card
_CARD = "nvidia.com/gpu"
_PRODUCT = "nvidia.com/gpu.product"
# Of the pool, at a consumer's start. A change of the rest starts none anew: each start is a load.
_READ = {"gpu_product", "mig_profile", "vram_bytes", "price_usd_per_hour", "budget_usd_per_month"}
_LABEL_VALUE_MAX = 63
_LOADS = 3  # times the measured load: a cold disk, a model that was not in the page cache
_START_SECONDS_MIN = 60  # the image's own start: Python, the driver
_ENGINE_SECONDS_MIN = 900  # a first load from a cold volume may take far longer than those that were measured
_IMAGE_SECONDS = 600  # to have a node and to pull the image, before a rollout counts as stuck
_HANDING_BACK_SECONDS = 30  # after the longest job: what was drawn is encoded, stored and settled, the group is left
_MARGIN_SECONDS = 10  # between the consumer's own deadline and the kill
_SETTING_SECONDS_MAX = 86_400


def gpu_deployment(declared: Declared, name: str, pool: Pool) -> Manifest:
    """No `replicas`: KEDA has them, and each apply of a number would take them back.

    A rollout adds no pod: one more would need one more card and cost one more rebalance (case KEDA-08).
    """
    cluster = declared.cluster
    role = f"gpu-consumer/{name}"
    kept, mounts = volumes(declared, role, cluster.gpu_consumer)
    weights = cluster.models
    if weights.claim:
        kept.append({"name": "models", "persistentVolumeClaim": {"claimName": weights.claim, "readOnly": True}})
    elif weights.image:
        kept.append({"name": "models", "image": {"reference": weights.image}})
    if weights.claim or weights.image:
        mounts.append({"name": "models", "mountPath": weights.path, "readOnly": True})
    start = _start_seconds(pool)
    run = container(
        COMPONENT,
        ["gpu-consumer", "run"],
        image=cluster.images.gpu_consumer,
        port=PORT,
        env=[*_settings(declared, name, pool), *identity(declared, role), *store_access(cluster)],
        mounts=mounts,
        start_seconds=start,
        resources=_resources(declared, pool),
    )
    placed = _placed(declared, name, pool)
    claims = (
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": pool.resource_claim_template}]}
        if pool.resource_claim_template
        else {}
    )
    return deployment(
        declared,
        gpu_name(name),
        COMPONENT,
        name,
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
        progressDeadlineSeconds=_engine_seconds(pool) + pod_grace_seconds(declared, name, pool) + _IMAGE_SECONDS,
        template=pod(
            declared,
            COMPONENT,
            name,
            resources=cluster.gpu_consumer,
            reads=[str(shared(declared)), pool.model_dump_json(include=_READ), str(declared.configs_of(name))],
            serviceAccountName=gpu_name(name),
            terminationGracePeriodSeconds=pod_grace_seconds(declared, name, pool),
            **placed,
            **claims,
            containers=[run],
            volumes=kept,
        ),
    )


def pod_grace_seconds(declared: Declared, name: str, pool: Pool) -> int:
    """From SIGTERM to SIGKILL. Of a spot pool what the notice leaves: what does not end by then another one draws."""
    if pool.spot:
        return declared.cluster.spot.notice_seconds
    grace = math.ceil(pool.job_seconds_max) + _HANDING_BACK_SECONDS
    if grace > _SETTING_SECONDS_MAX:
        most = _SETTING_SECONDS_MAX - _HANDING_BACK_SECONDS
        raise CatalogueError(
            f"pools.{name}.job_seconds_max is {pool.job_seconds_max:g}; no pod is given more than {most} s to end, "
            "lower it"
        )
    return grace + _MARGIN_SECONDS


def _start_seconds(pool: Pool) -> float:
    return max(_START_SECONDS_MIN, _LOADS * pool.load_seconds)


def _engine_seconds(pool: Pool) -> int:
    return min(_SETTING_SECONDS_MAX, max(_ENGINE_SECONDS_MIN, math.ceil(_LOADS * pool.load_seconds)))


def _settings(declared: Declared, name: str, pool: Pool) -> list[dict[str, Any]]:
    device = {"KILN_GPU_DEVICE": "cuda"}  # not `auto`, which draws on the CPU where the driver is missing
    if pool.gpu_product == CPU:
        device = {"KILN_GPU_DEVICE": "cpu", "KILN_GPU_DEVICE_MEMORY_BYTES": str(pool.vram_bytes)}
    plain = {
        "KILN_GPU_POOL": name,
        **device,
        "KILN_GPU_MODELS_DIR": declared.cluster.models.path,
        "KILN_GPU_ENGINE_START_SECONDS_MAX": str(_engine_seconds(pool)),
        "KILN_GPU_GRACE_SECONDS": str(pod_grace_seconds(declared, name, pool) - _MARGIN_SECONDS),
        "KILN_GPU_HEALTH_HOST": "0.0.0.0",  # noqa: S104 - inside a pod, behind its network policy
        "KILN_GPU_HEALTH_PORT": str(PORT),
    }
    return [
        *({"name": key, "value": value} for key, value in plain.items()),
        {"name": "KILN_GPU_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "KILN_GPU_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
    ]


def _resources(declared: Declared, pool: Pool) -> dict[str, Any]:
    host = declared.cluster.gpu_consumer
    if pool.gpu_product == CPU:
        return requested(host)
    if pool.resource_claim_template:
        return requested(host) | {"claims": [{"name": "gpu"}]}
    return requested(host, **{f"nvidia.com/mig-{pool.mig_profile}" if pool.mig_profile else _CARD: "1"})


def _placed(declared: Declared, name: str, pool: Pool) -> dict[str, Any]:
    """On which nodes, and by which runtime. A claim's template names its card; a pool without a card runs anywhere."""
    chosen: dict[str, str] = {}
    tolerated: list[dict[str, str]] = []
    if pool.gpu_product != CPU:
        tolerated.append({"key": _CARD, "operator": "Exists", "effect": "NoSchedule"})
        if not pool.resource_claim_template:
            chosen[_PRODUCT] = _label_value(name, pool.gpu_product)
    elif pool.mig_profile or pool.resource_claim_template:
        raise CatalogueError(f"pools.{name}: a pool on {CPU!r} has no card to take; name its gpu_product")
    if pool.spot:
        if _PRODUCT in declared.cluster.spot.node_selector:
            raise CatalogueError(
                f"cluster.spot.node_selector has {_PRODUCT}, which is each pool's gpu_product; take it out"
            )
        chosen |= declared.cluster.spot.node_selector
        if taint := declared.cluster.spot.taint:
            tolerated.append({"key": taint, "operator": "Exists", "effect": "NoSchedule"})
    runtime = declared.cluster.gpu_consumer.runtime_class
    return {
        **({"runtimeClassName": runtime} if runtime and pool.gpu_product != CPU else {}),
        **({"nodeSelector": chosen} if chosen else {}),
        **({"tolerations": tolerated} if tolerated else {}),
    }


def _label_value(name: str, product: str) -> str:
    """As GPU feature discovery labels nodes; another spelling would leave every pod without a node, and silently."""
    spelt = re.sub(r"[^A-Za-z0-9._-]+", "-", product)[:_LABEL_VALUE_MAX].strip("._-")
    if spelt != product or not spelt:
        raise CatalogueError(
            f"pools.{name}.gpu_product is {product!r}, which no node is labelled; write the value of {_PRODUCT} as "
            f"`kubectl get nodes -L {_PRODUCT}` shows it, such as {spelt or 'NVIDIA-H200'}"
        )
    return product

"""How KEDA scales a pool: by the lag of its group, summed over the lanes, or by what our own scaler says."""

from typing import Any

from infra.render.container import SETTINGS
from infra.render.declared import Declared
from infra.render.environment import user_of
from infra.render.gpu import COMPONENT
from infra.render.keda import check_scaled
from infra.render.manifest import Manifest, gpu_name, labels_of, manifest
from infra.render.names import AUTHENTICATION, KEDA_ROLE, SCALER, SCALER_PORT
from infra.scaler.wish import TARGET_MIN
from infra.scaling.threshold import item_seconds_of, lag_threshold
from schemas.errors import CatalogueError
from schemas.pools import Pool
from schemas.request import LANES

_API = "keda.sh/v1alpha1"
_FAILURES = 3  # polls without an answer before the fallback
_PERIOD_SECONDS = 60
_THRESHOLD_MAX = 1_000_000_000  # far beyond it a value, which travels in thousandths, is no int64 any more


def scaled_object(declared: Declared, name: str, pool: Pool) -> Manifest:
    """Raises CatalogueError where KEDA would not do what pools.yaml says."""
    _check(name, pool)
    scaling = pool.scaling
    by_lag = scaling.signal == "lag"
    found = manifest(
        _API,
        "ScaledObject",
        gpu_name(name),
        declared.cluster.namespace,
        labels_of(COMPONENT, name),
        spec={
            "scaleTargetRef": {"name": gpu_name(name)},
            "pollingInterval": scaling.polling_seconds,
            "cooldownPeriod": scaling.cooldown_seconds,
            "minReplicaCount": pool.replicas_min,
            "maxReplicaCount": pool.replicas_max,
            "fallback": _fallback(pool),
            "advanced": {
                "horizontalPodAutoscalerConfig": {"name": gpu_name(name), "behavior": _behaviour(pool)},
                **({"scalingModifiers": _summed(_threshold(declared, name, pool))} if by_lag else {}),
            },
            "triggers": _lanes(declared, name, pool) if by_lag else [_push(declared, name, pool)],
        },
    )
    check_scaled(found)
    return found


def authentication(declared: Declared) -> Manifest | None:
    """How KEDA proves to Kafka who it is: keys of Secrets by their names. None where Kafka asks nobody."""
    kafka = declared.cluster.kafka
    user = user_of(declared, KEDA_ROLE)
    secrets: list[tuple[str, str, str]] = []
    if kafka.by_password:
        secrets.append(("password", user, "password"))
    if kafka.authority:
        secrets.append(("ca", kafka.authority, "ca.crt"))
    if kafka.security_protocol == "SSL":
        secrets += [("cert", user, "user.crt"), ("key", user, "user.key")]
    if not secrets:
        return None
    spec: dict[str, Any] = {
        "secretTargetRef": [{"parameter": parameter, "name": name, "key": key} for parameter, name, key in secrets]
    }
    if kafka.by_password:
        # A name is no secret, and KEDA takes none from a trigger.
        spec["configMapTargetRef"] = [{"parameter": "username", "name": SETTINGS, "key": "KEDA_KAFKA_USERNAME"}]
    return manifest(
        _API, "TriggerAuthentication", AUTHENTICATION, declared.cluster.namespace, labels_of("keda"), spec=spec
    )


def _threshold(declared: Declared, name: str, pool: Pool) -> int:
    threshold = lag_threshold(pool.scaling.wait_seconds, item_seconds_of(pool, name, declared.configs))
    if threshold > _THRESHOLD_MAX:
        raise CatalogueError(
            f"pools.{name}.scaling asks for a lagThreshold of {threshold}; lower wait_seconds or raise item_seconds"
        )
    return threshold


def _summed(threshold: int) -> dict[str, str]:
    """Without it several triggers give their maximum. The target is a whole number: KEDA's fallback takes no other."""
    return {
        "formula": " + ".join(LANES),
        "target": str(threshold),
        "activationTarget": "0",
        "metricType": "AverageValue",
    }


def _lanes(declared: Declared, name: str, pool: Pool) -> list[dict[str, Any]]:
    kafka, catalogue = declared.cluster.kafka, declared.catalogue
    proof: dict[str, str] = {}
    if kafka.by_password:
        proof["sasl"] = "scram_sha512"
    if kafka.encrypted:
        proof["tls"] = "enable"
    known = authentication(declared)
    return [
        {
            "type": "kafka",
            "name": lane,
            "metricType": "AverageValue",
            "metadata": {
                "bootstrapServers": kafka.bootstrap_servers,
                "consumerGroup": catalogue.gpu_group(name),
                "topic": catalogue.work(name, lane),
                "lagThreshold": str(_threshold(declared, name, pool)),
                "activationLagThreshold": "0",
                "offsetResetPolicy": "earliest",
                "excludePersistentLag": "false",
                **proof,
            },
            **({"authenticationRef": {"name": AUTHENTICATION}} if known else {}),
        }
        for lane in LANES
    ]


def _push(declared: Declared, name: str, pool: Pool) -> dict[str, Any]:
    """A replica works off a GPU-second a second, so that what may wait of them is what the last one may wait."""
    own = f"{SCALER}.{declared.cluster.namespace}.svc:{SCALER_PORT}"
    return {
        "type": "external-push",
        "metricType": "AverageValue",
        "metadata": {
            "scalerAddress": declared.cluster.scaler.address or own,
            "pool": name,
            "targetGpuSeconds": format(pool.scaling.wait_seconds, "g"),
            "activationGpuSeconds": "0",
        },
    }


def _fallback(pool: Pool) -> dict[str, Any]:
    """While nobody answers: as many as there are, or the declared number. `replicas` says nothing to the former, but
    where it is 0 KEDA takes an error for rest, and lays a busy pool to sleep after its cooldown (RequestScale)."""
    kept = pool.scaling.fallback_replicas
    if kept is None:
        return {"failureThreshold": _FAILURES, "replicas": 1, "behavior": "currentReplicas"}
    return {"failureThreshold": _FAILURES, "replicas": kept, "behavior": "static"}


def _behaviour(pool: Pool) -> dict[str, Any]:
    """Fast out, slow in."""
    scaling = pool.scaling
    return {
        "scaleUp": _rule(scaling.out_window_seconds, scaling.out_replicas_per_minute),
        "scaleDown": _rule(scaling.in_window_seconds, scaling.in_replicas_per_minute),
    }


def _rule(window_seconds: int, replicas: int) -> dict[str, Any]:
    return {
        "stabilizationWindowSeconds": window_seconds,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": replicas, "periodSeconds": _PERIOD_SECONDS}],
    }


def _check(name: str, pool: Pool) -> None:
    scaling, where = pool.scaling, f"pools.{name}.scaling"
    if scaling.fallback_replicas is not None and scaling.fallback_replicas > pool.replicas_max:
        raise CatalogueError(
            f"{where}.fallback_replicas is {scaling.fallback_replicas}, above replicas_max {pool.replicas_max}; "
            "lower it"
        )
    if scaling.signal == "gpu_seconds" and scaling.wait_seconds < TARGET_MIN:
        raise CatalogueError(
            f"{where}.wait_seconds is {scaling.wait_seconds:g}; the scaler takes {TARGET_MIN:g} s or more, raise it"
        )
    if scaling.in_window_seconds < pool.load_seconds:
        raise CatalogueError(
            f"{where}.in_window_seconds is {scaling.in_window_seconds}, below load_seconds {pool.load_seconds:g}: "
            "replicas would go before they have paid for their start; raise it"
        )

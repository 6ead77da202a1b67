"""The triggers that KEDA is given for a pool: those of the rendered ScaledObject."""

from collections.abc import Mapping
from typing import Any

from infra.render.declared import Declared
from infra.render.scaled import scaled_object
from schemas.catalogue import ConfigCatalogue
from schemas.cluster import Cluster, KafkaCluster, Scaler
from schemas.pools import Pools
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL


def kafka_triggers(pool: GpuPool) -> Mapping[str, Mapping[str, str]]:
    """Lane -> metadata, in the order in which they stand."""
    return {trigger["name"]: trigger["metadata"] for trigger in _spec(pool)["triggers"]}


def threshold(pool: GpuPool) -> int:
    """By which the HPA divides the sum of the lanes."""
    return int(_spec(pool)["advanced"]["scalingModifiers"]["target"])


def push_trigger(pool: GpuPool, address: str) -> Mapping[str, str]:
    """Of the same pool, were it scaled by GPU-seconds."""
    (trigger,) = _spec(pool, signal="gpu_seconds", address=address)["triggers"]
    assert trigger["type"] == "external-push"
    metadata: Mapping[str, str] = trigger["metadata"]
    return metadata


def _spec(pool: GpuPool, *, signal: str = "lag", address: str | None = None) -> dict[str, Any]:
    declared = pool.catalogue.pools[POOL]
    declared = declared.model_copy(update={"scaling": declared.scaling.model_copy(update={"signal": signal})})
    kafka = KafkaCluster(bootstrap_servers=pool.kafka.bootstrap_servers, security_protocol="PLAINTEXT")
    pools = Pools(pools={POOL: declared}, cluster=Cluster(kafka=kafka, scaler=Scaler(address=address)))
    everything = Declared(pools, pool.catalogue, ConfigCatalogue([]), {}, "", "")
    spec: dict[str, Any] = scaled_object(everything, POOL, declared)["spec"]
    return spec

"""What KEDA v2.21 reads of a trigger. What it does not read it passes over in silence, so it is refused here."""

import re
from collections.abc import Iterator
from typing import Any

from schemas.errors import CatalogueError
from schemas.kubernetes import address

# pkg/scalers/kafka_scaler.go, kafkaMetadata: what a trigger may say in its own metadata.
KAFKA_KEYS = frozenset(
    {
        "bootstrapServers",
        "consumerGroup",
        "topic",
        "partitionLimitation",
        "lagThreshold",
        "activationLagThreshold",
        "offsetResetPolicy",
        "allowIdleConsumers",
        "excludePersistentLag",
        "scaleToZeroOnInvalidOffset",
        "limitToPartitionsWithLag",
        "ensureEvenDistributionOfPartitions",
        "fullMetadata",
        "version",
        "tls",
        "unsafeSsl",
        "sasl",
        "saslTokenProvider",
        "awsRegion",
    }
)
# Of an external scaler KEDA reads the first three; the rest goes to the scaler, which here knows these.
PUSH_KEYS = frozenset({"scalerAddress", "enableTLS", "unsafeSsl", "pool", "targetGpuSeconds", "activationGpuSeconds"})
# Each of these silently changes what lag means: docs/autoscaling.md has what was measured.
_NEEDED: dict[str, dict[str, str | None]] = {
    "kafka": {
        "bootstrapServers": None,
        "consumerGroup": None,
        "topic": None,  # without one, and without offsets, it is every topic of the cluster
        "lagThreshold": None,
        "offsetResetPolicy": "earliest",  # latest counts 1 a partition of a group that never committed
        "excludePersistentLag": "false",  # a long job looks idle (case KEDA-10)
    },
    "external-push": {"scalerAddress": None, "pool": None, "targetGpuSeconds": None},
}
_KEYS = {"kafka": KAFKA_KEYS, "external-push": PUSH_KEYS}


def check_scaled(document: dict[str, Any]) -> None:
    """Raises CatalogueError, which names the field, for what KEDA would ignore or only log."""
    name, spec = document["metadata"]["name"], document["spec"]
    for at, trigger in enumerate(spec["triggers"]):
        for sentence in _faults(trigger):
            raise CatalogueError(f"ScaledObject {name}, triggers[{at}]: {sentence}")
    least, most = spec["minReplicaCount"], spec["maxReplicaCount"]
    if not 0 <= least <= most:
        raise CatalogueError(f"ScaledObject {name}: minReplicaCount {least} is above maxReplicaCount {most}; lower it")
    fallback, formula = spec.get("fallback"), spec.get("advanced", {}).get("scalingModifiers")
    if fallback is not None and fallback["replicas"] > most:
        raise CatalogueError(f"ScaledObject {name}: fallback.replicas is above maxReplicaCount {most}; lower it")
    if len(spec["triggers"]) > 1 and formula is None:
        raise CatalogueError(f"ScaledObject {name}: several triggers give their maximum; sum them by scalingModifiers")
    if formula is not None:
        _check_formula(name, formula, [trigger.get("name") for trigger in spec["triggers"]])


def _faults(trigger: dict[str, Any]) -> Iterator[str]:
    kind, metadata = trigger["type"], trigger["metadata"]
    if kind not in _KEYS:
        yield f"type {kind!r} is none of ours; take {' or '.join(sorted(_KEYS))}"
        return
    for key, value in metadata.items():
        if key not in _KEYS[kind]:
            yield f"KEDA ignores metadata.{key}; take it out, or spell it as one of {', '.join(sorted(_KEYS[kind]))}"
        if not isinstance(value, str):
            yield f"metadata.{key} is {value!r}; write it as text"
    for key, only in _NEEDED[kind].items():
        if not metadata.get(key):
            yield f"metadata.{key} is missing; give it"
        elif only is not None and metadata[key] != only:
            yield f"metadata.{key} is {metadata[key]!r}; write {only!r}"
    if "scalerAddress" in metadata:
        try:
            address(metadata["scalerAddress"])
        except ValueError as error:  # KEDA would only log it
            yield f"metadata.scalerAddress: {error}"


def _check_formula(name: str, formula: dict[str, str], names: list[str | None]) -> None:
    read = set(re.findall(r"[A-Za-z_]\w*", formula["formula"]))
    if read != set(names) or len(set(names)) != len(names):
        raise CatalogueError(
            f"ScaledObject {name}: the formula reads {sorted(read)}; name each trigger once, as it does"
        )
    if not re.fullmatch(r"[1-9][0-9]*", formula["target"]):
        raise CatalogueError(
            f"ScaledObject {name}: scalingModifiers.target is {formula['target']!r}, with which KEDA drops the "
            "fallback; write a whole number above 0"
        )

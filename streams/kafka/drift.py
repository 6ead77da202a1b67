"""How a topic differs from the catalogue: pure, one sentence a difference."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schemas.counted import counted
from schemas.topics import TopicSpec

_RENEWALS = 4
_LISTS = frozenset({"cleanup.policy"})  # values whose order means nothing


@dataclass(frozen=True, slots=True)
class Observed:
    """A topic as the cluster has it: `replicas` is that of the partition with the fewest."""

    partitions: int
    replicas: int
    config: Mapping[str, str]


def min_in_sync(replication: int) -> int:
    """Replicas that must have a record before it is acknowledged, so that one broker can be lost without a record
    lost, and without a stop."""
    return max(1, min(2, replication - 1))


def drift(spec: TopicSpec, observed: Observed | None, replication: int) -> Iterator[str]:
    """Every way in which a topic differs from the catalogue and from `replication`; nothing where it does not."""
    if observed is None:
        yield f"{spec.name} is missing; `kiln topics create` creates it."
        return
    if observed.partitions != spec.partitions:
        yield (
            f"{spec.name} has {counted(observed.partitions, 'partition')} and the catalogue says {spec.partitions}; "
            "correct the setting, or create the topic anew, since a changed count sends keys elsewhere."
        )
    for key, wanted in spec.config.items():
        found = observed.config.get(key)
        if found is None or not _same(key, found, wanted):
            command = f"kafka-configs.sh --alter --topic {spec.name} --add-config {key}={_given(key, wanted)}"
            yield (
                f"{spec.name} has {key}={found} and the catalogue says {wanted}; alter the topic by `{command}`, or "
                "the setting that it comes from."
            )
    if observed.replicas < replication:
        yield (
            f"{spec.name} has {observed.replicas} of {replication} replicas and loses records with a broker; "
            "reassign its partitions, or give --replication if that is meant."
        )
    yield from _in_sync_drift(spec.name, observed)


def forgets(retention_minutes: int, renew_seconds: float, setting: str) -> str | None:
    """What to do where the brokers may forget a sleeping group between two renewals. Four of them fit, so that one may
    fail and a process that renews may be away for a while."""
    wanted = math.ceil(_RENEWALS * renew_seconds / 60)
    if retention_minutes >= wanted:
        return None
    return (
        f"The brokers forget the offsets of a group at rest after {counted(retention_minutes, 'minute')}, and then "
        f"what was done counts as work again; raise offsets.retention.minutes to {wanted}, or lower {setting} to "
        f"{retention_minutes * 60 / _RENEWALS:g}."
    )


def _in_sync_drift(name: str, observed: Observed) -> Iterator[str]:
    found = int(observed.config.get("min.insync.replicas", "1"))
    if found > observed.replicas:
        yield (
            f"{name} has min.insync.replicas={found} and {counted(observed.replicas, 'replica')}, so it acknowledges "
            f"nothing; alter it to {min_in_sync(observed.replicas)}."
        )
    elif found < min_in_sync(observed.replicas):
        yield (
            f"{name} has min.insync.replicas={found}, so an acknowledged record can be lost with one broker; "
            f"alter it to {min_in_sync(observed.replicas)}."
        )
    elif observed.replicas > 1 and found == observed.replicas:
        yield (
            f"{name} has min.insync.replicas={found} with as many replicas, so it stops with one broker; "
            f"alter it to {min_in_sync(observed.replicas)}."
        )


def _given(key: str, value: str) -> str:
    """As Kafka's tool takes it."""
    return f"[{value}]" if key in _LISTS else value


def _same(key: str, found: str, wanted: str) -> bool:
    if key in _LISTS:
        return {part.strip() for part in found.split(",")} == {part.strip() for part in wanted.split(",")}
    return found == wanted

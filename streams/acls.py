"""What each process must be allowed in Kafka, and nothing more. Pure.

Reading and writing a topic include describing it; writing includes being idempotent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from schemas.topics import Catalogue

Operation = Literal["read", "write", "create", "describe", "describe-configs"]


@dataclass(frozen=True, slots=True)
class Acl:
    """On one resource, or on all whose names begin with `name`."""

    resource: Literal["topic", "group", "transactional-id", "cluster"]
    name: str  # of a cluster: none
    operations: tuple[Operation, ...]
    prefixed: bool = False


def roles(catalogue: Catalogue) -> Mapping[str, tuple[Acl, ...]]:
    """Role -> what its principal needs. `producer` is who signs, or a gateway that alone writes requests."""
    found = {
        "admission": tuple(_admission(catalogue)),
        "keda": tuple(_keda(catalogue)),
        "operator": tuple(_operator(catalogue)),
        "producer": (Acl("topic", catalogue.requests, ("write",)),),
        "result-reader": tuple(Acl("topic", topic, ("read",)) for topic in (catalogue.results, catalogue.progress)),
        "scaler": tuple(_scaler(catalogue)),
    }
    found |= {f"gpu-consumer/{pool}": tuple(_gpu_consumer(catalogue, pool)) for pool in catalogue.pools}
    if catalogue.own_topics:
        own = {tenant: catalogue.tenant_requests(tenant) for tenant in catalogue.own_topics}
        found["gate"] = (
            *(Acl("topic", topic, ("read",)) for topic in own.values()),
            *(Acl("topic", topic, ("write",)) for topic in (catalogue.requests, catalogue.dead_letters)),
            Acl("group", catalogue.gate_group, ("read",)),
        )
        found |= {f"producer/{tenant}": (Acl("topic", topic, ("write",)),) for tenant, topic in own.items()}
    return found


def _admission(catalogue: Catalogue) -> Iterator[Acl]:
    own = (catalogue.requests, catalogue.decisions, catalogue.tenants, catalogue.results)
    shared = (catalogue.cancels, catalogue.control, catalogue.observations)
    yield from (Acl("topic", topic, ("read", "write")) for topic in (*own, *shared))
    yield from (Acl("topic", topic, ("write",)) for topic in (catalogue.usage, catalogue.dead_letters))
    yield Acl("topic", catalogue.work("", "").removesuffix("."), ("write",), prefixed=True)
    yield Acl("group", catalogue.admission_group, ("read",))
    # It joins the pools' groups for a moment, to keep their offsets.
    yield from (Acl("group", catalogue.gpu_group(pool), ("read",)) for pool in catalogue.pools)
    yield Acl("transactional-id", f"{catalogue.admission_group}.", ("write",), prefixed=True)


def _gpu_consumer(catalogue: Catalogue, pool: str) -> Iterator[Acl]:
    yield Acl("topic", catalogue.work(pool, ""), ("read",), prefixed=True)
    yield Acl("topic", catalogue.ledger(pool), ("read", "write"))
    yield from (Acl("topic", topic, ("read",)) for topic in (catalogue.cancels, catalogue.control))
    yield Acl("topic", catalogue.observations, ("read", "write"))
    told = (catalogue.results, catalogue.dead_letters, catalogue.uptime, catalogue.progress)
    yield from (Acl("topic", topic, ("write",)) for topic in told)
    yield Acl("group", catalogue.gpu_group(pool), ("read",))
    yield Acl("transactional-id", f"{catalogue.gpu_group(pool)}.", ("write",), prefixed=True)


def _keda(catalogue: Catalogue) -> Iterator[Acl]:
    """Its Kafka trigger asks how far the pools' groups are, and reads nothing."""
    yield Acl("topic", catalogue.work("", "").removesuffix("."), ("describe",), prefixed=True)
    yield Acl("group", catalogue.gpu_group(""), ("describe",), prefixed=True)


def _scaler(catalogue: Catalogue) -> Iterator[Acl]:
    """It reads what waits and what runs of it, and asks how far the pools' groups are and who is in them."""
    yield Acl("topic", catalogue.work("", "").removesuffix("."), ("read",), prefixed=True)
    yield Acl("topic", catalogue.ledger(""), ("read",), prefixed=True)
    yield Acl("topic", catalogue.observations, ("read",))
    yield Acl("group", catalogue.gpu_group(""), ("describe",), prefixed=True)


def _operator(catalogue: Catalogue) -> Iterator[Acl]:
    everything = f"{catalogue.settings.prefix}."
    yield Acl("topic", everything, ("create", "read", "describe-configs"), prefixed=True)
    yield from (Acl("topic", topic, ("write",)) for topic in (catalogue.cancels, catalogue.control))
    yield Acl("group", everything, ("describe",), prefixed=True)
    yield Acl("cluster", "", ("describe-configs",))

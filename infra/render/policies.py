"""What may be evicted at once, and who may speak to whom."""

from typing import Any
from urllib.parse import urlsplit

from infra.render.container import HEALTH
from infra.render.declared import Declared
from infra.render.environment import TRACES_TO
from infra.render.manifest import Manifest, labels_of, manifest, selector
from schemas.cluster import KafkaCluster
from schemas.errors import CatalogueError

_DNS = (53,)  # of any address: a node's own cache and a cloud's resolver are no pods
# A policy sees the port of the pod behind a Service: OpenShift's DNS listens at another one.
_OPENSHIFT_DNS, _OPENSHIFT_DNS_NAMESPACE = (5353,), "openshift-dns"
# https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html; other identities are asked for over HTTPS.
_POD_IDENTITY = ("169.254.170.23/32", "fd00:ec2::23/128")
_API_SERVER = (443, 6443)
_NAMESPACE = "kubernetes.io/metadata.name"


def disruption_budget(declared: Declared, name: str, component: str, pool: str | None) -> Manifest:
    """A drained node takes one pod at a time, which has its whole grace. One that only loads holds no drain up."""
    return manifest(
        "policy/v1",
        "PodDisruptionBudget",
        name,
        declared.cluster.namespace,
        labels_of(component, pool),
        spec={
            "selector": {"matchLabels": selector(component, pool)},
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    )


def network_policy(
    declared: Declared,
    name: str,
    component: str,
    pool: str | None,
    *,
    stores: bool = False,
    asks_kubernetes: bool = False,
    asked_by: tuple[str, str] | None = None,
) -> Manifest:
    """In: Prometheus alone, to the health page; and `asked_by`, a namespace and the port it may ask. Out: names,
    Kafka, traces where they are sent, and what the arguments say. Probes come from the node, which no policy keeps out.
    """
    cluster = declared.cluster
    out = [
        _to(_DNS, ("UDP", "TCP")),
        _to(_OPENSHIFT_DNS, ("UDP", "TCP"), _OPENSHIFT_DNS_NAMESPACE),
        _to(_kafka_ports(cluster.kafka), namespace=cluster.kafka.namespace),
    ]
    if stores and cluster.store.url.startswith("s3:"):
        out.append(_to((_port(cluster.store.endpoint_url or "https://s3"),)))
        if cluster.store.secret is None:
            out.append(_to((80,)) | {"to": [{"ipBlock": {"cidr": each}} for each in _POD_IDENTITY]})
    if asks_kubernetes:
        out.append(_to(_API_SERVER))
    out += [_to((_port(cluster.environment[each]),)) for each in TRACES_TO if each in cluster.environment]
    incoming = [_from(cluster.monitoring.namespace, HEALTH)]
    if asked_by is not None:
        incoming.append(_from(*asked_by))
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        name,
        cluster.namespace,
        labels_of(component, pool),
        spec={
            "podSelector": {"matchLabels": selector(component, pool)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": incoming,
            "egress": out,
        },
    )


def _from(namespace: str, port: str) -> dict[str, Any]:
    return {
        "from": [_pods_of(namespace)],
        "ports": [{"port": port, "protocol": "TCP"}],
    }


def _to(ports: tuple[int, ...], protocols: tuple[str, ...] = ("TCP",), namespace: str | None = None) -> dict[str, Any]:
    """To any address where none is known here: a store, a broker outside, the API server."""
    found: dict[str, Any] = {
        "ports": [{"port": port, "protocol": protocol} for port in ports for protocol in protocols]
    }
    return found if namespace is None else found | {"to": [_pods_of(namespace)]}


def _pods_of(namespace: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE: namespace}}}


def _kafka_ports(kafka: KafkaCluster) -> tuple[int, ...]:
    first = (int(address.rpartition(":")[2]) for address in kafka.bootstrap_servers.split(","))
    return tuple(sorted({*first, *kafka.broker_ports}))


def _port(url: str) -> int:
    try:
        parts = urlsplit(url)
        return parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError) as error:
        raise CatalogueError(
            f"{url!r} names no port that a network policy could open; write http(s)://HOST:PORT"
        ) from error

"""Topics and users as Strimzi's operators make them: all that the catalogue says and what streams/acls.py allows."""

from collections.abc import Iterator

from infra.render.declared import Declared
from infra.render.environment import user_of
from infra.render.manifest import Manifest, manifest, object_name
from schemas.errors import CatalogueError
from schemas.request import LANES
from streams.acls import Acl, Operation, roles
from streams.kafka.drift import min_in_sync

_API = "kafka.strimzi.io/v1"
_CERTIFICATE_NAME_MAX = 64  # of X.509, and so of Strimzi where users prove themselves by one
_OPERATIONS: dict[Operation, str] = {
    "read": "Read",
    "write": "Write",
    "create": "Create",
    "describe": "Describe",
    "describe-configs": "DescribeConfigs",
}
_TYPES = {"topic": "topic", "group": "group", "transactional-id": "transactionalId", "cluster": "cluster"}


def topics(declared: Declared) -> Iterator[Manifest]:
    """Every topic of the deployment. Nothing where the cluster has no Strimzi: `kiln topics create` makes them."""
    kafka = declared.cluster.kafka
    if kafka.strimzi_cluster is None:
        return
    pools = {
        topic: pool
        for pool in declared.pools.pools
        for topic in (declared.catalogue.ledger(pool), *(declared.catalogue.work(pool, lane) for lane in LANES))
    }
    for spec in declared.catalogue.specs():
        kept = {**spec.config, "min.insync.replicas": str(min_in_sync(kafka.replicas))}
        made = _object(
            declared,
            "KafkaTopic",
            object_name(spec.name),
            {
                "topicName": spec.name,
                "partitions": spec.partitions,
                "replicas": kafka.replicas,
                "config": dict(sorted(kept.items())),
            },
        )
        if spec.name in pools:
            made["metadata"]["labels"]["promptkiln.dev/pool"] = pools[spec.name]
        yield made


def users(declared: Declared) -> Iterator[Manifest]:
    """A user for each role. Strimzi writes the Secret that proves it, of the same name. Nothing where nobody is asked
    who he is: rules would name users that never come."""
    kafka = declared.cluster.kafka
    if kafka.strimzi_cluster is None or kafka.security_protocol == "PLAINTEXT":
        return
    for role, acls in sorted(roles(declared.catalogue).items()):
        user = user_of(declared, role)
        if not kafka.by_password and len(user) > _CERTIFICATE_NAME_MAX:
            raise CatalogueError(
                f"the Kafka user {user} has a name of {len(user)} characters; a certificate holds "
                f"{_CERTIFICATE_NAME_MAX}: shorten KILN_TOPICS_PREFIX or the name of the pool or tenant"
            )
        yield _object(
            declared,
            "KafkaUser",
            user,
            {
                "authentication": {"type": "scram-sha-512" if kafka.by_password else "tls"},
                "authorization": {"type": "simple", "acls": [_rule(acl) for acl in acls]},
            },
        )


def _rule(acl: Acl) -> dict[str, object]:
    named = {"name": acl.name, "patternType": "prefix" if acl.prefixed else "literal"} if acl.name else {}
    return {
        "type": "allow",
        "resource": {"type": _TYPES[acl.resource], **named},
        "operations": [_OPERATIONS[each] for each in acl.operations],
        "host": "*",
    }


def _object(declared: Declared, kind: str, name: str, spec: dict[str, object]) -> Manifest:
    kafka = declared.cluster.kafka
    labels = {"strimzi.io/cluster": str(kafka.strimzi_cluster), "app.kubernetes.io/managed-by": "kiln"}
    return manifest(_API, kind, name, kafka.namespace or declared.cluster.namespace, labels, spec=spec)

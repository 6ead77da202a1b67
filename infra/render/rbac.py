"""Who a pod is to Kubernetes. A GPU consumer may say on its own pod what its end would cost, and nothing else."""

from collections.abc import Iterator

from infra.render.declared import Declared
from infra.render.gpu import COMPONENT
from infra.render.manifest import Manifest, gpu_name, labels_of, manifest

_RBAC = "rbac.authorization.k8s.io"


def service_account(declared: Declared, name: str, component: str, pool: str | None, *, asks: bool) -> Manifest:
    """`asks`: its pods speak to the API server, and so are given a token."""
    found = manifest("v1", "ServiceAccount", name, declared.cluster.namespace, labels_of(component, pool))
    if declared.cluster.service_account_annotations:
        found["metadata"]["annotations"] = dict(sorted(declared.cluster.service_account_annotations.items()))
    return found | {"automountServiceAccountToken": asks}


def pool_accounts(declared: Declared, pool: str) -> Iterator[Manifest]:
    """A pool's account, and that it may patch the status of pods: of the namespace's, since RBAC knows no names of pods
    that do not exist yet. Not pods themselves: an image of its own in another pod would be that one's account."""
    name, namespace, labels = gpu_name(pool), declared.cluster.namespace, labels_of(COMPONENT, pool)
    yield service_account(declared, name, COMPONENT, pool, asks=True)
    yield manifest(
        f"{_RBAC}/v1",
        "Role",
        name,
        namespace,
        labels,
        rules=[{"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}],
    )
    yield manifest(
        f"{_RBAC}/v1",
        "RoleBinding",
        name,
        namespace,
        labels,
        roleRef={"apiGroup": _RBAC, "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    )

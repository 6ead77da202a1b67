"""What every pod reads: the settings of all services, what is declared, and the configurations."""

from collections.abc import Iterator

from infra.render.container import CONFIGS, DECLARED, SETTINGS
from infra.render.declared import Declared
from infra.render.environment import shared, user_of
from infra.render.manifest import Manifest, labels_of, manifest
from infra.render.names import KEDA_ROLE
from schemas.errors import CatalogueError

_BYTES_MAX = 1 << 20  # of a ConfigMap; the API server refuses more


def namespace(declared: Declared) -> Manifest:
    """Pods of ours ask for nothing that the strictest standard refuses."""
    labels = {
        "app.kubernetes.io/managed-by": "kiln",
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    }
    found = manifest("v1", "Namespace", declared.cluster.namespace, "", labels)
    del found["metadata"]["namespace"]
    return found


def settings_maps(declared: Declared) -> Iterator[Manifest]:
    settings = shared(declared)
    if declared.cluster.kafka.by_password:
        settings["KEDA_KAFKA_USERNAME"] = user_of(declared, KEDA_ROLE)
    yield _map(declared, SETTINGS, settings)
    yield _map(declared, DECLARED, {"pools.yaml": declared.pools_text, "tenants.yaml": declared.tenants_text})
    yield _map(declared, CONFIGS, dict(sorted(declared.config_files.items())))


def _map(declared: Declared, name: str, data: dict[str, str]) -> Manifest:
    size = sum(len(key.encode()) + len(value.encode()) for key, value in data.items())
    if size > _BYTES_MAX:
        raise CatalogueError(
            f"ConfigMap {name} would have {size} bytes and Kubernetes takes {_BYTES_MAX}; move retired versions out of "
            "the folder of configurations"
        )
    return manifest("v1", "ConfigMap", name, declared.cluster.namespace, labels_of("settings"), data=data)

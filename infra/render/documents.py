"""Everything that is rendered, by the file of the Kustomize base that it stands in. Pure."""

from collections.abc import Mapping

from infra.render.declared import Declared
from infra.render.gpu import gpu_deployment
from infra.render.manifest import Manifest
from infra.render.rbac import pool_accounts
from infra.render.scaled import authentication, scaled_object
from infra.render.settings_maps import namespace, settings_maps
from infra.render.strimzi import topics, users


def documents(declared: Declared) -> Mapping[str, list[Manifest]]:
    """Raises CatalogueError, in one sentence that names the field and the cure, where what is declared would not work
    as it says."""
    proof = authentication(declared)
    found = {
        "namespace.yaml": [namespace(declared)],
        "settings.yaml": list(settings_maps(declared)),
        "keda.yaml": [proof] if proof else [],
        "topics.yaml": list(topics(declared)),
        "users.yaml": list(users(declared)),
    }
    for name, pool in declared.by_name():
        found[f"pool-{name}.yaml"] = [
            *pool_accounts(declared, name),
            gpu_deployment(declared, name, pool),
            scaled_object(declared, name, pool),
        ]
    return {path: each for path, each in sorted(found.items()) if each}

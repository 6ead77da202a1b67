"""The documents as a Kustomize base."""

from collections.abc import Mapping

import yaml

from infra.render.manifest import Manifest, to_yaml

_KIND = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}


def kustomize(found: Mapping[str, list[Manifest]]) -> dict[str, str]:
    """Files by their paths below the folder `kustomize`."""
    files = {f"base/{path}": to_yaml(each) for path, each in found.items()}
    files["base/kustomization.yaml"] = _text({**_KIND, "resources": sorted(found)})
    return files


def _text(body: dict[str, object]) -> str:
    return yaml.safe_dump(body, sort_keys=False, width=120)

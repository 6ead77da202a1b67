"""A Kubernetes object as a mapping, its labels, and how it is written."""

import re
from hashlib import sha256
from typing import Any

import yaml

from schemas.errors import CatalogueError
from schemas.kubernetes import SUBDOMAIN

Manifest = dict[str, Any]


def manifest(api: str, kind: str, name: str, namespace: str, labels: dict[str, str], **body: Any) -> Manifest:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        **body,
    }


def labels_of(component: str, pool: str | None = None) -> dict[str, str]:
    """Every object's; see `selector` for those by which pods are found, which must never change."""
    return {**selector(component, pool), "app.kubernetes.io/managed-by": "kiln"}


def selector(component: str, pool: str | None = None) -> dict[str, str]:
    chosen = {"app.kubernetes.io/name": "promptkiln", "app.kubernetes.io/component": component}
    return chosen if pool is None else chosen | {"promptkiln.dev/pool": pool}


def gpu_name(pool: str) -> str:
    """Of everything of a pool. Raises CatalogueError where Kubernetes would have no such name."""
    if pool.startswith("-") or pool.endswith("-"):
        raise CatalogueError(f"pools.{pool}: Kubernetes has no name that begins or ends with '-'; rename the pool")
    return f"kiln-gpu-{pool}"


def object_name(text: str) -> str:
    """`text` as a name that Kubernetes takes: itself, or where that is none a near one with a digest in it."""
    if re.fullmatch(SUBDOMAIN, text):
        return text
    near = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return f"{near}-{digest(text)}".lstrip("-")


def digest(*texts: str) -> str:
    """Changes with what a pod reads at its start, so that a change of it starts pods anew."""
    return sha256("\0".join(texts).encode()).hexdigest()[:16]


# What the YAML of Kubernetes reads as a number or a truth where the one of Python reads text: 1e3, y.
_DOUBTFUL = re.compile(r"[-+.]?[0-9]\S*|[yYnN]")


class _Plain(yaml.CSafeDumper):
    """libyaml's emitter: the one in Python takes a minute for 200 pools."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, value: str) -> yaml.ScalarNode:
        style = "'" if _DOUBTFUL.fullmatch(value) else "|" if "\n" in value else None  # a file in a file: as it stands
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Plain.add_representer(str, _Plain.text)


def to_yaml(documents: list[Manifest], *, apart: bool = True) -> str:
    """The same text for the same documents, in the order in which they were made; not `apart`: one list of them."""
    bodies: list[Any] = documents if apart else [documents]
    return yaml.dump_all(bodies, Dumper=_Plain, sort_keys=False, explicit_start=apart, allow_unicode=True, width=120)

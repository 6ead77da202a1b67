"""Breaks what was rendered in one place."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.infra.rendered import Object, Rendered

Break = Callable[[Object], Any]


def broken(rendered: Rendered, kind: str, change: Break, *, name: str | None = None) -> Path:
    """Apply `change` to the first object of a kind, and write its file again. Returns that file."""
    for path in rendered.files():
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        for document in documents:
            if document["kind"] == kind and name in (None, document["metadata"]["name"]):
                change(document)
                path.write_text(yaml.safe_dump_all(documents, allow_unicode=True), encoding="utf-8")
                return path
    raise AssertionError(f"no {kind} was rendered")


def put(*path: str | int, value: Any) -> Break:
    """Sets what is at `path`."""

    def change(document: Object) -> None:
        node: Any = document
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = value

    return change


def renamed(*path: str | int, to: str) -> Break:
    """Misspells the field at `path`."""

    def change(document: Object) -> None:
        node: Any = document
        for step in path[:-1]:
            node = node[step]
        node[to] = node.pop(path[-1])

    return change

"""What `kiln infra render` has written, as the checks read it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.golang import ROOT
from tests.infra.tools import WORK
from tests.kiln import Kiln

DECLARED = {"development": ROOT / "infra" / "pools.yaml", "examples": ROOT / "infra" / "examples" / "pools.yaml"}
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """One folder that was rendered. Paths are below `folder`."""

    folder: Path

    @property
    def base(self) -> Path:
        return self.folder / "kustomize" / "base"

    def files(self) -> list[Path]:
        """Those with objects in them, the base's. A Kustomization is no object of a cluster."""
        return sorted(path for path in self.base.rglob("*.yaml") if path.name != "kustomization.yaml")

    def overlays(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.rglob("kustomization.yaml"))

    def charts(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.rglob("Chart.yaml"))

    def objects(self) -> Iterator[tuple[str, Object]]:
        """Each object, with the name of its file."""
        for path in self.files():
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if document:
                    yield path.name, document

    def rule_groups(self) -> list[Object]:
        return [
            group
            for _, document in self.objects()
            if document["kind"] == "PrometheusRule"
            for group in document["spec"]["groups"]
        ]

    def dashboards(self) -> dict[str, Object]:
        """File name -> dashboard, from the ConfigMaps that Grafana's sidecar picks up."""
        return {
            name: json.loads(text)
            for _, document in self.objects()
            if document["kind"] == "ConfigMap"
            for name, text in document.get("data", {}).items()
            if name.endswith(".json")
        }


def render(pools: Path, folder: Path) -> str | None:
    """Run the command, in this process. The sentence with which it refuses; None where all is written."""
    done = Kiln({}).inside("infra", "render", "--pools", str(pools), "--out", str(folder))
    return (done.err.strip() or done.out.strip() or f"status {done.code}") if done.code else None


def render_all() -> dict[str, Rendered]:
    """Everything that the repository declares. Raises AssertionError where it is refused."""
    made = {}
    for name, pools in DECLARED.items():
        folder = WORK / "rendered" / name
        refused = render(pools, folder)
        assert refused is None, f"{pools.relative_to(ROOT)} is refused: {refused}"
        made[name] = Rendered(folder)
    return made

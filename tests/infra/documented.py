"""What docs show in YAML: manifests to apply, and pools to declare. A person copies them."""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from schemas.errors import CatalogueError
from schemas.pools import load_pools
from tests.golang import ROOT
from tests.infra.manifests import manifests
from tests.infra.outcome import Outcome, counted
from tests.infra.tools import WORK

DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> Iterator[tuple[int, str]]:
    """Each block of YAML, and the line that it begins in."""
    for found in _BLOCK.finditer(page):
        yield page.count("\n", 0, found.start(1)) + 1, found[1]


def documented(docs: Path = DOCS) -> Outcome:
    """Raises GoMissing."""
    folder = WORK / "documented"
    folder.mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    files: list[Path] = []
    declared = 0
    for page in sorted(docs.glob("*.md")):
        for line, text in blocks(page.read_text(encoding="utf-8")):
            file = folder / f"{page.name}-{line}.yaml"
            file.write_text(text, encoding="utf-8")
            first = next((each for each in yaml.safe_load_all(text) if isinstance(each, dict)), {})
            if "apiVersion" in first:
                files.append(file)
            elif first.keys() <= {"pools", "cluster"} and "pools" in first:
                declared += 1
                try:
                    load_pools(file)
                except CatalogueError as error:
                    found.append(str(error))
    outcome = manifests(files, folder) if files else Outcome("", ("docs show no manifest",))
    return Outcome(counted(files=len(files), pools=declared), (*found, *outcome.findings))

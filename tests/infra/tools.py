"""The tools of others that the checks ask: each found, built or fetched once, below .kiln."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.golang import ROOT, build, module_folder
from tests.prometheus import NoPrometheus, tools

WORK = ROOT / ".kiln" / "infra-check"
SOURCE = Path(__file__).parent / "check"
KEDA = "github.com/kedacore/keda/v2"
_SECONDS_MAX = 600.0


class ToolMissing(Exception):
    """A tool cannot be had here; the sentence says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return (self.out + self.err).strip()


def run(*command: str | Path, cwd: Path = ROOT) -> Done:
    """Blocks until it ends, ten minutes at most. Raises FileNotFoundError where there is no such program."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


@cache
def _program() -> Path:
    return build(SOURCE, ".", "infra-check")


def ask(*arguments: str | Path) -> dict[str, Any]:
    """The report of the Go program in tests/infra/check. Raises GoMissing; AssertionError where it could not look."""
    done = run(_program(), *arguments)
    assert done.code == 0, f"infra-check {arguments[0]} could not look: {done.err}"
    report: dict[str, Any] = json.loads(done.out)
    return report


def keda_folder() -> Path:
    """KEDA's own module, in which its schemas lie. Raises GoMissing."""
    return module_folder(SOURCE, KEDA)


def kubectl() -> str:
    """Raises ToolMissing."""
    found = shutil.which("kubectl")
    if found is None:
        raise ToolMissing(
            "kubectl is not installed; overlays are built with it (https://kubernetes.io/docs/tasks/tools)"
        )
    return found


def promtool() -> Path:
    """Raises ToolMissing."""
    try:
        return tools().promtool
    except NoPrometheus as missing:
        raise ToolMissing(str(missing)) from missing


def findings(report: dict[str, Any], below: Path) -> tuple[str, ...]:
    """What the Go program found, with paths as a person would open them."""
    return tuple(f"{_near(each['where'], below)}: {each['problem']}" for each in report["findings"])


def _near(where: str, below: Path) -> str:
    return where.removeprefix(f"{below}/")


def lines(said: str, *, of: str, keep: int = 12) -> tuple[str, ...]:
    """What another tool said, as findings: its lines, the first of them."""
    found: Sequence[str] = [line.strip() for line in said.splitlines() if line.strip()]
    return tuple(f"{of}: {line}" for line in found[:keep])

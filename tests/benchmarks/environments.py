"""An environment for each peer, made on demand under .kiln/bench, so that its dependencies meet none of ours."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.report import FOLDER, ROOT

_INSTALL_SECONDS = 300
# None of them is to report to anybody that it was used.
TELEMETRY_OFF = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "BENTOML_DO_NOT_TRACK": "True",
    "DO_NOT_TRACK": "1",
    "OTEL_SDK_DISABLED": "true",
}


class NotInstallable(Exception):
    """The peer cannot be had here. One sentence."""


def environment(name: str, package: str, *, beside: Sequence[str] = ()) -> Path:
    """The Python of the environment `name`, which is made if it is not there: `package` as the extra `bench` names it,
    and `beside` as the project's own dependencies do. Blocks, for minutes. Raises NotInstallable."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    requirements = _requirements(package, beside)
    ready = folder / ".ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == "\n".join(requirements):
        return python
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise NotInstallable(f"{name} is left out: uv is not there to install it; run make setup")
    for command in (
        (uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)),
        (uv, "pip", "install", "--quiet", "--python", str(python), *requirements),
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise NotInstallable(f"{name} is left out: {_INSTALL_SECONDS} s were not enough to install it") from None
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1].strip()
            raise NotInstallable(f"{name} is left out: it cannot be installed here ({reason})")
    ready.write_text("\n".join(requirements), encoding="utf-8")
    return python


def _requirements(package: str, beside: Sequence[str]) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    peers, ours = project["optional-dependencies"]["bench"], project["dependencies"]
    return [_named(peers, package), *(_named(ours, each) for each in beside)]


def _named(requirements: Sequence[str], package: str) -> str:
    """The requirement of `package`, extras and bounds included."""
    (requirement,) = (each for each in requirements if _package(each) == package)
    return requirement


def _package(requirement: str) -> str:
    end = next((at for at, letter in enumerate(requirement) if letter in "[<>=!~; "), len(requirement))
    return requirement[:end]

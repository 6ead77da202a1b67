"""Prometheus and promtool for the tests that need them: the system's, or Debian's package, unpacked once into .kiln."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_HOME = Path(__file__).parents[1] / ".kiln" / "prometheus"
_SECONDS = 300


class NoPrometheus(Exception):
    """It is not here and cannot be fetched; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Tools:
    prometheus: Path
    promtool: Path


def tools() -> Tools:
    """Raises NoPrometheus."""
    found = [shutil.which(name) for name in ("prometheus", "promtool")]
    if found[0] is not None and found[1] is not None:
        return Tools(Path(found[0]), Path(found[1]))
    unpacked = Tools(_HOME / "usr" / "bin" / "prometheus", _HOME / "usr" / "bin" / "promtool")
    if not unpacked.promtool.exists():
        _fetch(_HOME)
    return unpacked


def _fetch(home: Path) -> None:
    """Nothing is installed: the package is unpacked beside, then moved, so that two who fetch do not meet."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoPrometheus(
            "there is no Prometheus, and no apt-get to fetch Debian's; put prometheus and promtool on PATH"
        )
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetching-") as name:
        folder = Path(name)
        _run(["apt-get", "download", "prometheus"], folder)
        (package,) = folder.glob("prometheus_*.deb")
        _run(["dpkg-deb", "-x", str(package), "root"], folder)
        try:
            (folder / "root").rename(home)
        except OSError:
            if not (home / "usr" / "bin" / "promtool").exists():
                raise


def _run(command: list[str], folder: Path) -> None:
    environment = os.environ | {"LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NoPrometheus(f"`{' '.join(command)}` took longer than {_SECONDS} s; look at the network") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NoPrometheus(
            f"`{' '.join(command)}` failed ({said[-1] if said else done.returncode}); run apt-get update"
        )

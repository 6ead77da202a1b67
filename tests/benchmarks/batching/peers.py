"""The peers as real servers on loopback: an environment each, made on demand, and a process group that ends with us."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.batching.baselines import Knobs
from tests.benchmarks.report import FOLDER, ROOT
from tests.fault.world import free_port

_STOP_SECONDS = 10
_INSTALL_SECONDS = 300
# None of them is to report to anybody that it was used.
_TELEMETRY_OFF = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "BENTOML_DO_NOT_TRACK": "True",
    "DO_NOT_TRACK": "1",
    "OTEL_SDK_DISABLED": "true",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """`package`: as the extra `bench` of pyproject.toml names it. `wraps`: whether a request holds a list of one.

    `warm_requests`: before its batcher works as it is meant to.
    """

    name: str
    package: str
    command: tuple[str, ...]
    wraps: bool = False
    sets_own_wait: bool = False
    warm_requests: int = 2


PEERS = {
    peer.name: peer
    for peer in (
        Peer("ray", "ray", ("-m", "tests.benchmarks.batching.apps.ray_serve")),
        Peer("litserve", "litserve", ("-m", "tests.benchmarks.batching.apps.lit_serve")),
        Peer(
            "bentoml",
            "bentoml",
            ("-m", "bentoml", "serve", "tests.benchmarks.batching.apps.bento:Painting"),
            wraps=True,
            sets_own_wait=True,
            warm_requests=24,  # its batcher measures its first 15 batches or so
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Server:
    """`url`: to post to. `log`: all that it says."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class NotInstallable(Exception):
    """The peer cannot be had here. One sentence."""


def environment(peer: Peer) -> Path:
    """The Python of its environment, which is made if it is not there. Blocks, for minutes. Raises NotInstallable."""
    folder = FOLDER / peer.name
    python = folder / "bin" / "python"
    requirement = _requirement(peer)
    ready = folder / ".ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == requirement:
        return python
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise NotInstallable(f"{peer.name} is left out: uv is not there to install it; run make setup")
    for command in (
        (uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)),
        (uv, "pip", "install", "--quiet", "--python", str(python), requirement),
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise NotInstallable(
                f"{peer.name} is left out: {_INSTALL_SECONDS} s were not enough to install it"
            ) from None
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1].strip()
            raise NotInstallable(f"{peer.name} is left out: it cannot be installed here ({reason})")
    ready.write_text(requirement, encoding="utf-8")
    return python


def _requirement(peer: Peer) -> str:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return next(str(each) for each in extras["bench"] if str(each).startswith(peer.package))


@contextmanager
def serving(peer: Peer, python: Path, knobs: Knobs, scale: float) -> Iterator[Server]:
    """It may still be starting."""
    port = free_port()
    command = [str(python), *peer.command]
    if peer.name == "bentoml":
        command += ["--host", "127.0.0.1", "--port", str(port)]
    log = FOLDER / f"{peer.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_variables(port, knobs, scale),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield Server(f"http://127.0.0.1:{port}/paint", process, log)
        finally:
            _end(process)


def _variables(port: int, knobs: Knobs, scale: float) -> Mapping[str, str]:
    return {
        **os.environ,
        **_TELEMETRY_OFF,
        "RAY_AUTH_TOKEN": secrets.token_hex(32),  # else Ray keeps one in the home directory
        "RAY_raylet_start_wait_time_s": "60",  # its 30 are not enough on two cores that have other work
        "BENTOML_HOME": str(FOLDER / "bentoml-home"),
        "PYTHONPATH": str(ROOT),
        "KILN_PORT": str(port),
        "KILN_SCALE": str(scale),
        "KILN_SIZE": str(knobs.size),
        "KILN_WAIT": str(knobs.wait * scale),
    }


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask by the end of its input, then by SIGTERM; whatever is left of its group is killed."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    for ask in (None, signal.SIGTERM):
        if ask is not None:
            process.send_signal(ask)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS if ask or "ray_serve" in str(process.args) else 0)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

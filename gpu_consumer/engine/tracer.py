"""A trace of the next few steps, by torch's own profiler, when somebody asks for one."""

import gzip
import tempfile
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from gpu_consumer.engine.protocol import Profiled


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
        if self._wanted and self._profile is None:
            activities = [ProfilerActivity.CPU]
            if torch.cuda.is_available():
                activities.append(ProfilerActivity.CUDA)
            self._done = 0
            self._profile = profile(activities=activities)
            self._profile.start()

    def after_step(self) -> Profiled | None:
        """The trace, once the last of its steps is made. Blocks while it is written, which takes seconds."""
        if self._profile is None:
            return None
        self._done += 1
        if self._done < self._wanted:
            return None
        running, self._profile, steps, self._wanted = self._profile, None, self._wanted, 0
        running.stop()
        with tempfile.TemporaryDirectory(prefix="kiln-trace-") as folder:
            path = Path(folder) / "trace.json"
            running.export_chrome_trace(str(path))
            return Profiled(gzip.compress(path.read_bytes(), compresslevel=5), steps)

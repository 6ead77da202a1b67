"""What goes wrong with a device, where and how often: a plan in a file, and beside it the log of what did go wrong.

The engine that reads the plan may be killed by it and started again, so whatever is counted is counted in the log.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from schemas.config import GenerationConfig

PLAN = "PROMPTKILN_FAULTY_DEVICE"  # the environment variable that names the plan's file
DEVICE = "tests.fault.gpu.device:make"  # for the settings of an engine

Kind = Literal[
    "out_of_memory",  # of the device
    "host_out_of_memory",
    "error",  # the model's own: it cannot run this item
    "non_finite",  # NaN in what the stage gives for the item
    "one_colour",  # the same number wherever the item's picture is
    "sticky",  # a CUDA error after which the context is lost
    "hang",
    "kill",  # SIGKILL, as the kernel's OOM killer and an operator send it
    "wrong_pixels",  # the card computes, and not what it should
]
LETHAL: frozenset[Kind] = frozenset({"sticky", "hang", "kill"})
Event = Literal["start", "work", "fault"]


class Fault(BaseModel):
    """Strikes whenever `stage` runs for a key that begins with `job`, if all else holds too."""

    model_config = ConfigDict(frozen=True)

    kind: Kind
    stage: Literal["text", "denoise", "decode"] = "denoise"
    job: str = ""  # any
    above: int = 0  # items in the batch; fewer are no trouble
    times: int | None = None  # over all engines together; None: always
    from_start: int = 1  # engines started before this one are well


class Plan(BaseModel):
    """`pace_seconds`: how long a step lasts at least, so that there is a middle to be hit."""

    model_config = ConfigDict(frozen=True)

    faults: tuple[Fault, ...] = ()
    preload: tuple[GenerationConfig, ...] = ()
    pace_seconds: float = 0.0

    def write(self, path: Path) -> None:
        path.write_text(self.model_dump_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Plan":
        return cls.model_validate_json(path.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Line:
    """An engine's device was opened; it was given the first work for these keys; a fault of the plan struck."""

    event: Event
    pid: int
    at: float  # of the wall clock, which all processes share
    fault: int = -1  # its place in the plan
    keys: Sequence[str] = ()


class Log:
    """Survives whoever writes it: a line is one write, and it is made before what it tells of."""

    def __init__(self, plan: Path) -> None:
        self._path = plan.with_suffix(".log")

    def write(self, event: Event, *, fault: int = -1, keys: Sequence[str] = ()) -> None:
        line = json.dumps([event, os.getpid(), time.time(), fault, list(keys)]) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def read(self) -> list[Line]:
        if not self._path.exists():
            return []
        return [Line(*json.loads(line)) for line in self._path.read_text(encoding="utf-8").splitlines()]

"""EngineProcess: the engine as a child of the consumer, so that what kills one does not kill the other."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from gpu_consumer.engine.link import Link, wait_for
from gpu_consumer.engine.protocol import (
    NOT_STARTED,
    Batch,
    Broken,
    EngineDied,
    Event,
    Learn,
    Leave,
    Peak,
    Profile,
    Ready,
    Setup,
)
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.shm import pipe
from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig

T = TypeVar("T")
_REAP_SECONDS = 30  # after SIGKILL: freeing the memory of a large card takes the driver some seconds


class EngineProcess:
    """An Engine in a process of its own, for one task at a time.

    `starts` counts since construction, for metrics: starts - 1 are restarts. `answers`: what is known already of what
    its configurations draw (Ready.answers); all of its engines must draw what the first of them did. `board`: of its
    team, open for as long as it may be started.
    """

    def __init__(
        self,
        settings: EngineSettings,
        preload: Sequence[GenerationConfig] = (),
        *,
        answers: Mapping[str, str] = MappingProxyType({}),
        board: int | None = None,
    ) -> None:
        self._setup = Setup(settings, tuple(preload), dict(answers), board)
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Link | None = None
        self.starts = 0

    @property
    def alive(self) -> bool:
        return (
            self._process is not None
            and self._process.poll() is None
            and self._link is not None
            and self._link.death is None
        )

    @property
    def pid(self) -> int | None:
        """Of the child, None if there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> Ready:
        await self.stop()
        self.starts += 1
        ours, theirs = pipe()
        try:
            self._process = _spawn(theirs.fileno(), self._setup)
        finally:
            theirs.close()
        self._link = Link(self._process, ours, self._setup.settings)
        self._link.send(self._setup)
        try:
            said = await self._link.wait()
        except BaseException:
            self._process.kill()
            raise
        first = said[0] if said else None
        if isinstance(first, Ready):
            self._setup = replace(self._setup, answers={**first.answers, **self._setup.answers})
            self._link.put_back(said[1:])
            return first
        assert first is None or isinstance(first, Broken), f"the engine said {first} before it was ready"
        death = self._link.death
        await self.stop()
        if first is None:
            raise EngineDied(death or "the engine was stopped while it started")
        if first.kind == "model_unavailable":
            raise ModelUnavailable(first.message)
        raise EngineDied(f"the engine ended: {first.message}")

    async def submit(self, batch: Batch) -> None:
        self._send(batch)

    async def leave(self, keys: Collection[str]) -> None:
        self._send(Leave(tuple(keys)))

    async def learn(self, peaks: Sequence[Peak]) -> None:
        """Tell the engine what others measured. Raises EngineDied."""
        self._send(Learn(tuple(peaks)))

    async def profile(self, steps: int) -> None:
        """Ask for a trace of the next `steps` steps, at least 1; it comes as Profiled. Raises EngineDied."""
        self._send(Profile(steps))

    async def events(self) -> Sequence[Event]:
        link = self._link
        if link is None:
            raise EngineDied(NOT_STARTED)
        while said := await link.wait():
            if events := [event for event in said if not isinstance(event, Ready | Broken)]:
                return events
        assert link.death is not None
        raise EngineDied(link.death, joined=link.joined)

    async def stop(self) -> None:
        process, link = self._process, self._link
        if process is None or link is None:
            return
        link.close()
        try:
            await _in_thread(lambda: wait_for(process, self._setup.settings.stop_seconds_max))
        finally:
            if process.poll() is None:
                process.kill()
        await _in_thread(lambda: wait_for(process, _REAP_SECONDS))
        await _in_thread(link.join)
        self._process = self._link = None

    def _send(self, message: object) -> None:
        link = self._link
        if link is None:
            raise EngineDied(NOT_STARTED)
        if not self.alive:
            raise EngineDied(link.death or "the engine has ended", joined=link.joined)
        link.send(message)


def _spawn(descriptor: int, setup: Setup) -> "subprocess.Popen[bytes]":
    """From the loop's own thread: the child is killed when the *thread* that made it ends. Blocks for a fork and exec.

    Not by multiprocessing, whose children import the parent's main module first: the whole command line, here.
    """
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # so that an index means the same card as in NVML
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it cuBLAS may choose another sum order each run
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin while they wait keep busy neighbours from their work
        **os.environ,
        "OMP_NUM_THREADS": str(setup.settings.threads),
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path),  # noqa: PTH100 - keeps links
    }
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "gpu_consumer.engine.child", str(descriptor), str(os.getpid())],
        pass_fds=[descriptor] if setup.board is None else [descriptor, setup.board],
        stdin=subprocess.DEVNULL,
        stdout=2,  # libraries print; the output of a command is its own
        env=environment,
    )


def _in_thread(function: Callable[[], T]) -> "asyncio.Future[T]":
    """Run `function` in a daemon thread: unlike an executor's, it never keeps the interpreter from exiting."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # abandoned ones are no warning

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="engine-stop", daemon=True).start()
    return future

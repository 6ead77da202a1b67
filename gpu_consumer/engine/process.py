"""EngineProcess: the engine as a child of the consumer, so that what kills one does not kill the other."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from gpu_consumer.engine.protocol import Batch, Broken, EngineDied, Finished, Ready, Setup
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.shm import pipe, receive_pictures
from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig

T = TypeVar("T")
_LOST = (EOFError, OSError)  # the second: an end in the middle of a message
_REAP_SECONDS = 30  # after SIGKILL: freeing the memory of a large card takes the driver some seconds


class NotSent(Exception):
    """The engine was gone before it got the message."""


class EngineProcess:
    """An Engine in a process of its own. For one loop, and one task at a time.

    `starts` and `batches` count since construction, for metrics: starts - 1 are restarts.
    """

    def __init__(self, settings: EngineSettings, preload: Sequence[GenerationConfig] = ()) -> None:
        self._setup = Setup(settings, tuple(preload))
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._exchange: asyncio.Future[Any] | None = None
        self.starts = 0
        self.batches = 0

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Of the child, None if there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> Ready:
        await self.stop()
        self.starts += 1
        self._connection, theirs = pipe()
        try:
            self._process = _spawn(theirs.fileno(), self._setup.settings.threads)
        finally:
            theirs.close()
        try:
            reply = await self._ask(self._setup, self._setup.settings.start_seconds_max, running=False)
        except BaseException:
            self._process.kill()
            raise
        if isinstance(reply, Ready):
            return reply
        await self.stop()
        raise _refusal(reply, running=False)

    async def run(self, batch: Batch) -> Finished:
        await self._finish_abandoned()
        reply = await self._ask(batch, self._setup.settings.batch_seconds_max, running=True)
        if isinstance(reply, Finished) and reply.number == batch.number:
            self.batches += 1
            return reply
        if not (isinstance(reply, Broken) and reply.kind == "model_unavailable"):
            await self.stop()
        raise _refusal(reply, running=True)

    async def stop(self) -> None:
        process, connection = self._process, self._connection
        if process is None or connection is None:
            return
        hang_up(connection)
        try:
            await _in_thread(lambda: _wait(process, self._setup.settings.stop_seconds_max))
        finally:
            if process.poll() is None:
                process.kill()
        await _in_thread(lambda: _wait(process, _REAP_SECONDS))
        if self._exchange is not None:
            with contextlib.suppress(NotSent, *_LOST):
                await self._exchange  # the pipe is closed when nobody reads it any more
        connection.close()
        self._process = self._connection = self._exchange = None

    async def _finish_abandoned(self) -> None:
        """Wait for the answer to a batch whose caller was cancelled, and drop it. Raises EngineDied if none comes."""
        if self._exchange is None or self._exchange.done():
            return
        with contextlib.suppress(NotSent, *_LOST):  # the next question finds out
            await self._bounded(self._exchange, self._setup.settings.batch_seconds_max, running=False)

    async def _bounded(self, exchange: "asyncio.Future[Any]", seconds: float, *, running: bool) -> Any:
        """The answer of `exchange`; past `seconds` the engine is killed and EngineDied raised."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(exchange)
        except TimeoutError:
            assert self._process is not None
            self._process.kill()
            raise EngineDied(f"the engine gave no answer in {seconds:g} s and was killed", running=running) from None

    async def _ask(self, message: object, seconds: float, *, running: bool) -> Any:
        """Send, and return the answer. Raises EngineDied."""
        process, connection = self._process, self._connection
        if process is None or connection is None or process.poll() is not None:
            raise EngineDied(f"the engine {_end(process)}; start it again", running=False)
        self._exchange = _in_thread(lambda: _exchange(connection, message))
        try:
            return await self._bounded(self._exchange, seconds, running=running)
        except NotSent:
            died_running = False
        except _LOST:
            died_running = running
        await _in_thread(lambda: _wait(process, self._setup.settings.stop_seconds_max))
        process.kill()  # a no-op but for a child that closed its pipe and lives on
        raise EngineDied(f"the engine {_end(process)}", running=died_running)


def hang_up(connection: Connection) -> None:
    """Close both directions under whoever reads: they get EOF. Closing the descriptor itself would not wake them."""
    with contextlib.suppress(OSError), socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.shutdown(socket.SHUT_RDWR)


def _spawn(descriptor: int, threads: int) -> "subprocess.Popen[bytes]":
    """From the loop's own thread: the child is killed when the *thread* that made it ends. Blocks for a fork and exec.

    Not by multiprocessing, whose children import the parent's main module first: the whole command line, here.
    """
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # so that an index means the same card as in NVML
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it cuBLAS may choose another sum order each run
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path),  # noqa: PTH100 - keeps links
    }
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "gpu_consumer.engine.child", str(descriptor), str(os.getpid())],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=2,  # libraries print; the output of a command is its own
        env=environment,
    )


def _exchange(connection: Connection, message: object) -> Any:
    try:
        connection.send(message)
    except OSError as error:
        raise NotSent from error
    reply = connection.recv()
    return receive_pictures(connection, *reply) if isinstance(reply, tuple) else reply


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

    threading.Thread(target=work, name="engine-pipe", daemon=True).start()
    return future


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _end(process: "subprocess.Popen[bytes] | None") -> str:
    if process is None:
        return "is not started"
    status = process.poll()
    if status is None:
        return "closed its pipe"
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"


def _refusal(reply: object, *, running: bool) -> Exception:
    if isinstance(reply, Broken) and reply.kind == "model_unavailable":
        return ModelUnavailable(reply.message)
    if isinstance(reply, Broken):
        return EngineDied(f"the engine ended: {reply.message}", running=running)
    return EngineDied(f"the engine answered out of turn, with {type(reply).__name__}", running=running)

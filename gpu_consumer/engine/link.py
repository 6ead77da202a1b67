"""The pipe to one engine process, and the threads that work it: one reads, one writes, and no loop is ever blocked."""

import asyncio
import contextlib
import math
import queue
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

from gpu_consumer.engine.protocol import Broken, Ended, Event, Joined, Pulse, Ready, Refused
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.shm import receive_bodies

_LOST = (EOFError, OSError)  # the second: an end in the middle of a message
_LOOK_SECONDS = 1.0
_TIMES_SILENT = 10  # a step that takes ten times the median hangs, and a decode that takes ten times the last one


class Link:
    """All that one engine process says is kept here, in order, until `wait` returns it, for whichever loop asks.

    The process is killed when it says nothing for too long. `joined`: what has a slot, or had one when it died.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", connection: Connection, settings: EngineSettings) -> None:
        self._process = process
        self._connection = connection
        self._settings = settings
        self._lock = threading.Lock()
        self._said: list[Event | Ready | Broken] = []
        self._joined: set[str] = set()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._silence_max = settings.start_seconds_max
        self._outgoing: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.death: str | None = None
        _end_reads_after(connection, settings.watchdog_seconds_min)
        self._threads = [
            threading.Thread(target=work, name=f"engine-{name}", daemon=True)  # daemons never keep us from exiting
            for name, work in (("reader", self._read), ("writer", self._write))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def joined(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._joined)

    def send(self, message: object) -> None:
        """Put it on its way; never blocks. An engine that is gone does not get it, and `death` says so soon."""
        self._outgoing.put(message)

    async def wait(self) -> "list[Event | Ready | Broken]":
        """What was said since the last call; waits for something. Empty: it is dead, and all was returned."""
        while True:
            with self._lock:
                if self._said or self.death is not None:
                    said, self._said = self._said, []
                    return said
                changed = asyncio.Event()
                self._waiting = asyncio.get_running_loop(), changed
            await changed.wait()

    def put_back(self, said: "Sequence[Event | Ready | Broken]") -> None:
        """The next `wait` returns these first."""
        with self._lock:
            self._said[:0] = said
            self._wake()

    def close(self) -> None:
        """End the conversation: both sides read an end of file, and ours is closed once nobody uses it. Blocks for it.

        Closing the descriptor itself would not wake who reads it.
        """
        with (
            contextlib.suppress(OSError),
            socket.fromfd(self._connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end,
        ):
            end.shutdown(socket.SHUT_RDWR)
        self._outgoing.put(None)

    def join(self) -> None:
        """Blocks until both threads are done: after `close`, or after a death."""
        for thread in self._threads:
            thread.join()
        self._connection.close()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # whoever reads finds out
            while (message := self._outgoing.get()) is not None:
                self._connection.send(message)

    def _read(self) -> None:
        death = None
        try:
            while death is None:
                death = self._next()
        except BlockingIOError:
            death = "the engine stopped in the middle of a message and was killed"
        except _LOST:
            wait_for(self._process, self._settings.stop_seconds_max)
            death = f"the engine {_end(self._process)}"
        except Exception as error:  # whatever unpickling raises: nobody else would say that nothing more is read
            death = f"the engine said what cannot be read ({type(error).__name__}: {error}) and was killed"
        self._process.kill()  # a no-op but for one that hangs, or closed its pipe and lives on
        self._outgoing.put(None)
        with self._lock:
            self.death = death
            self._wake()

    def _next(self) -> str | None:
        """Take one message; or why the engine is to be killed."""
        # Counted in looks: after a suspension of the whole machine a clock would blame the engine for it.
        silent = 0.0
        while not self._connection.poll(look := min(_LOOK_SECONDS, self._silence_max - silent)):
            silent += look
            if silent >= self._silence_max:
                return f"the engine gave no sign of life in {self._silence_max:g} s and was killed"
        said = hear(self._connection)
        self._keep(said)
        message = said[-1] if said else None
        if not isinstance(message, Broken):
            return None
        wait_for(self._process, self._settings.stop_seconds_max)  # its traceback is on the way to stderr
        return f"the engine ended: {message.message}"

    def _keep(self, said: "Sequence[Event | Ready | Broken]") -> None:
        with self._lock:
            for event in said:
                if isinstance(event, Joined):
                    self._joined.update(event.keys)
                elif isinstance(event, Ended):
                    self._joined.discard(event.key)
                elif isinstance(event, Refused):
                    self._joined.difference_update(event.keys)
                elif isinstance(event, Pulse | Ready):
                    self._silence_max = self._patience(event)
            self._said += said
            self._wake()

    def _patience(self, event: Pulse | Ready) -> float:
        if isinstance(event, Pulse) and event.doing == "load":
            return self._settings.start_seconds_max
        expected = max(event.step_seconds or 0.0, event.silent_seconds) if isinstance(event, Pulse) else 0.0
        return max(self._settings.watchdog_seconds_min, _TIMES_SILENT * expected)

    def _wake(self) -> None:
        if self._waiting is not None:
            loop, changed = self._waiting
            self._waiting = None
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits
                loop.call_soon_threadsafe(changed.set)


def _end_reads_after(connection: Connection, seconds: float) -> None:
    """Of a message that began and goes no further: whoever hangs may do so anywhere. A BlockingIOError says so."""
    limit = struct.pack("ll", *divmod(math.ceil(1e6 * seconds), 1_000_000))
    with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def hear(connection: Connection) -> "Sequence[Event | Ready | Broken]":
    """One message of the engine's. Blocks. Raises EOFError or OSError where it is gone."""
    message: Ready | Broken | tuple[list[Event], list[int]] = connection.recv()
    return receive_bodies(connection, *message) if isinstance(message, tuple) else [message]


def wait_for(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Until it has ended, or so many seconds at most. Blocks."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _end(process: "subprocess.Popen[bytes]") -> str:
    status = process.poll()
    if status is None:
        return "closed its pipe"
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"

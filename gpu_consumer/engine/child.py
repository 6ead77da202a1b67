"""The engine process: python -m gpu_consumer.engine.child DESCRIPTOR PARENT. Started by EngineProcess alone.

It obeys its pipe, and nothing else: it ends when the pipe closes or its parent dies, and leaves SIGINT and SIGTERM,
which a terminal or a service manager sends to a whole group, to its parent, who drains first.
"""

import ctypes
import faulthandler
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

from gpu_consumer.engine.faults import Sticky
from gpu_consumer.engine.protocol import Batch, Broken, Setup
from gpu_consumer.engine.shm import send_finished
from gpu_consumer.engine.warm import open_engine
from gpu_consumer.models.digests import ModelUnavailable

_PR_SET_PDEATHSIG = 1
EXIT_BROKEN = 70  # EX_SOFTWARE


def die_with_parent(parent: int) -> None:
    """From here on this process is killed when its parent dies; if it is dead already, exit now. Linux only.

    The kernel means the thread that spawned us: EngineProcess spawns from the thread of its loop.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_BROKEN)


def main(arguments: Sequence[str]) -> int:
    descriptor, parent = (int(argument) for argument in arguments)
    die_with_parent(parent)
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    faulthandler.enable()
    connection = Connection(descriptor)
    try:
        return serve(connection, connection.recv(), parent)
    except (EOFError, ConnectionError):  # the parent closed its end: this is how an engine is told to end
        os._exit(0)  # there is nothing to save, and taking torch apart object by object takes a second


def serve(connection: Connection, setup: Setup, parent: int) -> int:
    """Load, warm, then one batch a message. Raises EOFError or ConnectionError when the pipe closes."""
    number = None
    try:
        engine, ready = open_engine(setup.settings, setup.preload)
        connection.send(ready)
        while True:
            batch: Batch = connection.recv()
            number = batch.number
            try:
                finished = engine.run(batch)
            except ModelUnavailable as error:
                connection.send(Broken(number, "model_unavailable", str(error)))
            else:
                send_finished(connection, finished, parent)
    except (EOFError, ConnectionError):
        raise
    except ModelUnavailable as error:
        connection.send(Broken(None, "model_unavailable", str(error)))
    except Sticky as error:
        connection.send(Broken(number, "sticky", f"the device is lost to the engine: {error}"))
    except Exception as error:
        connection.send(Broken(number, "crash", f"{type(error).__name__}: {error}"))
        raise  # the traceback goes to stderr, for people
    return EXIT_BROKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

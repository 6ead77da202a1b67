"""The engine process: python -m gpu_consumer.engine.child DESCRIPTOR PARENT. Started by EngineProcess alone.

It obeys its pipe, and nothing else: it ends when the pipe closes or its parent dies, and leaves SIGINT and SIGTERM,
which a terminal or a service manager sends to a whole group, to its parent, who drains first.
"""

import ctypes
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

from streams.logs import log_to_stderr

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """From here on this process is killed when its parent dies; if it is dead already, exit now. Linux only.

    The kernel means the thread that spawned us: EngineProcess spawns from the thread of its loop.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(os.EX_SOFTWARE)


def main(arguments: Sequence[str]) -> None:
    """Never returns: there is nothing to save, and taking torch apart object by object takes a second."""
    descriptor, parent = (int(argument) for argument in arguments)
    die_with_parent(parent)
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    faulthandler.enable()
    log_to_stderr(verbose=False)
    connection = Connection(descriptor)
    started = time.monotonic()
    from gpu_consumer.engine.inbox import HungUp
    from gpu_consumer.engine.serving import serve  # torch and diffusers: seconds, of which the consumer is told

    import_seconds = time.monotonic() - started
    status = os.EX_SOFTWARE
    try:
        serve(connection, connection.recv(), import_seconds)
    except (HungUp, EOFError, ConnectionError):  # the parent closed its end: this is how an engine is told to end
        status = 0
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])

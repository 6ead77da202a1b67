"""Events from the engine to the consumer; pictures and traces go beside the pipe, in anonymous shared memory.

That memory has no name, so nothing is left over when either side is killed, nothing needs sweeping, and the small
/dev/shm of a container is no limit. The kernel frees it with its last descriptor.
"""

import mmap
import os
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection

from gpu_consumer.engine.protocol import Ended, Event, Picture, Profiled


def send_events(connection: Connection, events: Sequence[Event]) -> None:
    """Send `events`, their bytes beside the pipe. Blocks while the pipe is full. Raises OSError if the peer is gone."""
    data = [body for event in events if (body := _body(event)) is not None]
    message = [_with_body(event, b"") for event in events], [len(one) for one in data]
    if not data:
        connection.send(message)
        return
    descriptor = _anonymous()
    try:
        _write(descriptor, data)  # first, for it may take a while, and who reads the message waits for the rest
        connection.send(message)
        with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
            socket.send_fds(end, [b"m"], [descriptor])
    finally:
        os.close(descriptor)


def receive_bodies(connection: Connection, events: Sequence[Event], sizes: Sequence[int]) -> list[Event]:
    """The other half: what came by the pipe, with its bytes. Blocks. Raises EOFError or OSError if the peer is gone."""
    if not sizes:
        return list(events)
    with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
        _, descriptors, _, _ = socket.recv_fds(end, 1, 1)
    if not descriptors:
        raise EOFError("the pipe ended before the pictures came")
    try:
        bodies = iter(_read(descriptors[0], sizes))
    finally:
        os.close(descriptors[0])
    return [event if _body(event) is None else _with_body(event, next(bodies)) for event in events]


def pipe() -> tuple[Connection, Connection]:
    """Two ends that carry messages and descriptors, each with one owner."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Connection(ours.detach()), Connection(theirs.detach())


def _body(event: Event) -> bytes | None:
    """The bytes that an event carries, None for one that carries none."""
    if isinstance(event, Ended) and isinstance(event.outcome, Picture):
        return event.outcome.data
    return event.trace if isinstance(event, Profiled) else None


def _with_body(event: Event, body: bytes) -> Event:
    if isinstance(event, Ended) and isinstance(event.outcome, Picture):
        return replace(event, outcome=replace(event.outcome, data=body))
    return replace(event, trace=body) if isinstance(event, Profiled) else event


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kiln-pictures", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # a system without memfd: a file that has no name either
        return os.dup(file.fileno())


def _read(descriptor: int, sizes: Sequence[int]) -> list[bytes]:
    if not sum(sizes):  # nothing cannot be mapped
        return [b"" for _ in sizes]
    with mmap.mmap(descriptor, sum(sizes), access=mmap.ACCESS_READ) as memory:
        return [memory[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


def _write(descriptor: int, data: Sequence[bytes]) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.writelines(data)

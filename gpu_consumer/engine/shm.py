"""Encoded pictures from the engine to the consumer: anonymous shared memory, passed as a descriptor.

It has no name, so nothing is left over when either side is killed, nothing needs sweeping, and the small /dev/shm of a
container is no limit. The kernel frees it with its last descriptor.
"""

import mmap
import os
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle

from gpu_consumer.engine.protocol import Finished


def _anonymous() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kiln-pictures", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # a system without memfd: a file that has no name either
        return os.dup(file.fileno())


def send_finished(connection: Connection, finished: Finished, peer: int) -> None:
    """Send `finished`, its pixels beside the pipe. Blocks until the peer has read. Raises OSError where it is gone."""
    data = [picture.data for picture in finished.pictures]
    bare = tuple(replace(picture, data=b"") for picture in finished.pictures)
    connection.send((replace(finished, pictures=bare), [len(one) for one in data]))
    if not data:
        return
    descriptor = _anonymous()
    try:
        _write(descriptor, data)
        send_handle(connection, descriptor, peer)
    finally:
        os.close(descriptor)


def receive_pictures(connection: Connection, finished: Finished, sizes: Sequence[int]) -> Finished:
    """The other half: `finished` with its pictures' bytes. Blocks. Raises EOFError or OSError if the peer is gone."""
    if not sizes:
        return finished
    descriptor = recv_handle(connection)
    try:
        with mmap.mmap(descriptor, sum(sizes), access=mmap.ACCESS_READ) as memory:
            start = 0
            pictures = []
            for picture, size in zip(finished.pictures, sizes, strict=True):
                pictures.append(replace(picture, data=memory[start : start + size]))
                start += size
    finally:
        os.close(descriptor)
    return replace(finished, pictures=tuple(pictures))


def _write(descriptor: int, data: Sequence[bytes]) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.writelines(data)


def pipe() -> tuple[Connection, Connection]:
    """Two ends that carry messages and descriptors, each with one owner."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Connection(ours.detach()), Connection(theirs.detach())

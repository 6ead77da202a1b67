"""Ports for processes that are told theirs beforehand."""

import secrets
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_OUTGOING_FROM = 32_768  # where the system does not say so
_FIRST = 10_000


def free_port() -> int:
    """One that nobody listens at, below those of outgoing connections: one of these would have any client of the
    machine take it before the process that is told of it has started."""
    outgoing_from = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _OUTGOING_FROM
    while True:
        port = _FIRST + secrets.randbelow(max(1, outgoing_from - _FIRST))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

"""A network of this process' own, with nothing in it but loopback: nothing of the test can be reached, or reach out."""

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_CLONE_NEWNET, _CLONE_NEWUSER = 0x40000000, 0x10000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 1


def enter_own_network() -> None:
    """For this process and all that it starts from now on. Call it before the first thread. Raises OSError where the
    kernel does not allow it."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _CLONE_NEWNET if user == 0 else _CLONE_NEWNET | _CLONE_NEWUSER
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "this process gets no network of its own")
    if user:
        me = Path("/proc/self")
        (me / "setgroups").write_text("deny")
        (me / "uid_map").write_text(f"0 {user} 1")
        (me / "gid_map").write_text(f"0 {group} 1")
    _set_up("lo")


def _set_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", interface.encode(), 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", interface.encode(), flags | _IFF_UP))

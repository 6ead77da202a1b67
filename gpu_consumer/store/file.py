"""A directory as an object store: file://.

A writer never touches the final name before the bytes are on disk: it writes a hidden temporary file, then renames it
(put) or links it (create; a link, like O_EXCL, never replaces a name). A killed writer leaves a hidden file only.
"""

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpu_consumer.store.base import StoreRefused, StoreUnavailable, check_key
from gpu_consumer.store.probe import check_promises

_TEMPORARY = ".writing"
_PERMANENT = {
    errno.EACCES,
    errno.EEXIST,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOTSUP,
}


class FileStore:
    """Objects as files under one directory of a file system with hard links; several processes may share it.

    The content type is not kept: the extension of a name tells it.
    """

    def __init__(self, root: Path, *, leftover_age_seconds: float) -> None:
        self._root = root.resolve()
        self._temporary = self._root / _TEMPORARY
        self._leftover_age_seconds = leftover_age_seconds

    def get(self, key: str) -> bytes | None:
        with _told(f"read {key}"):
            try:
                return self._path(key).read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def put(self, key: str, data: bytes, content_type: str) -> None:
        with _told(f"write {key}"), self._written(data) as temporary:
            path = self._place(key)
            temporary.replace(path)
            _sync(path.parent)

    def create(self, key: str, data: bytes, content_type: str) -> bool:
        with _told(f"create {key}"), self._written(data) as temporary:
            path = self._place(key)
            try:
                path.hardlink_to(temporary)
                created = True
            except FileExistsError:
                # A network file system may lose the reply of a link that it has made: then our file has two names.
                created = temporary.stat().st_nlink == 2
            _sync(path.parent)  # the winner's name too: what the caller reads back must outlive a power cut
            return created

    def uri(self, key: str) -> str:
        return self._path(key).as_uri()

    def delete(self, key: str) -> None:
        with _told(f"delete {key}"):
            self._path(key).unlink(missing_ok=True)

    def probe(self) -> None:
        with _told(f"use {self._root}"):
            self._sweep(time.time())
        check_promises(self)

    def _path(self, key: str) -> Path:
        if check_key(key).split("/", 1)[0] == _TEMPORARY:
            raise AssertionError(f"{key!r} is not inside the store")
        return self._root / key  # and inside it: a checked key has no part that leads out

    def _place(self, key: str) -> Path:
        path = self._path(key)
        _make_directory(path.parent)
        return path

    @contextmanager
    def _written(self, data: bytes) -> Iterator[Path]:
        """A temporary file whose bytes are on disk; gone on exit, whatever became of it."""
        _make_directory(self._temporary)
        temporary = self._temporary / f"{os.getpid()}-{secrets.token_hex(16)}"
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _sweep(self, now: float) -> None:
        """Remove what killed writers left. A writer slower than the age loses its file and reports StoreUnavailable."""
        _make_directory(self._temporary)
        for leftover in self._temporary.iterdir():
            with suppress(FileNotFoundError):
                if now - leftover.stat().st_mtime > self._leftover_age_seconds:
                    leftover.unlink()


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn the operating system's errors into the store's two."""
    try:
        yield
    except OSError as error:
        if error.errno in _PERMANENT:
            raise StoreRefused(f"cannot {what}: {error}; check the directory of KILN_STORE_URL") from error
        raise StoreUnavailable(f"cannot {what} now: {error}") from error


def _make_directory(path: Path) -> None:
    """Like mkdir -p, and each new name is on disk before it is used."""
    if path.is_dir():
        return
    if path != path.parent:
        _make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

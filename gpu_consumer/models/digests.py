"""The digest of a model folder: SHA-256 over the sorted list of its files. One changed byte is another model."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from schemas.codec import canonical, sha256_hex

_BLOCK_BYTES = 1 << 20
# Path, inode, size, and the times of the last change of the content and of the inode, which nobody can set back.
_Stamp = tuple[str, int, int, int, int]

_known: dict[_Stamp, str] = {}


class ModelUnavailable(Exception):
    """A model that cannot be served here: not in the models directory, or its content is not what was asked for."""


def told(error: Exception) -> str:
    """What a library raised, on one line, for the brackets of our own sentence."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def file_sha256(path: Path) -> str:
    """64 hex digits. Blocks while it reads; a file seen before and not touched since is not read again."""
    status = path.stat()
    stamp = (str(path.resolve()), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if stamp not in _known:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        _known[stamp] = digest.hexdigest()
    return _known[stamp]


def listing(folder: Path) -> list[list[str | int]]:
    """[path, bytes, SHA-256] of each file below `folder`, by path; hidden files and folders are not part of a model.

    Links are followed, as loading does. Raises ModelUnavailable where they lead in a circle, and OSError.
    """
    files = {path.relative_to(folder).as_posix(): path for path in _below(folder, ())}
    return [[name, path.stat().st_size, file_sha256(path)] for name, path in sorted(files.items())]


def model_digest(folder: Path, what: str = "model") -> str:
    """ "sha256:" and 64 hex digits; of a single file, as a LoRA may be, those of its bytes. Raises ModelUnavailable
    where there is no model: no folder, or nothing in it that can be read."""
    try:
        if folder.is_file():
            return "sha256:" + file_sha256(folder)
        files = listing(folder) if folder.is_dir() else []
        digest = "sha256:" + sha256_hex(canonical(files))
    except (OSError, UnicodeError) as error:
        raise ModelUnavailable(
            f"the {what} in {str(folder)!r} cannot be read ({error}); check its files' names, owner and mode"
        ) from error
    if not files:
        raise ModelUnavailable(
            f"there is no model in {folder}; put its folder there, or write ours with "
            f"`kiln models make-tiny {folder.parent}` and `kiln models add-shapes {folder.parent}`"
        )
    return digest


def verify(folder: Path, digest: str, what: str = "model") -> None:
    """Raises ModelUnavailable unless the content of `folder` is exactly the one named by `digest`, and no list of its
    weights names a file that is no part of that."""
    found = model_digest(folder, what)
    if found != digest:
        raise ModelUnavailable(
            f"the {what} in {folder} is {found}, but {digest} was asked for; fetch the right files, or see "
            f"`kiln models digest {folder}`"
        )
    for path in _below(folder, ()) if folder.is_dir() else ():
        if path.name.endswith(".safetensors.index.json"):
            _check_shards(path)


def _below(folder: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    here = folder.resolve()
    if here in above:
        raise ModelUnavailable(f"the folder {folder} leads back to {here}; put the files there, and not a link")
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _below(path, (*above, here))
        elif path.is_file():
            yield path


def _check_shards(index: Path) -> None:
    """Weights in several files come with a list of them, and what it names is loaded, wherever that lies."""
    try:
        shards = {*json.loads(index.read_bytes())["weight_map"].values()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelUnavailable(f"{index} is no list of weights ({error!r}); fetch the right files") from error
    for shard in shards:
        inside = isinstance(shard, str) and not shard.startswith(".") and "/" not in shard
        if not inside or not (index.parent / shard).is_file():
            raise ModelUnavailable(f"{index} names {shard!r}, which is no file of that folder; put it there")

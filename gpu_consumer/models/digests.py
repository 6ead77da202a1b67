"""The digest of a model folder: SHA-256 over the sorted list of its files. One changed byte is another model."""

import hashlib
from pathlib import Path

from schemas.codec import canonical, sha256_hex

_BLOCK_BYTES = 1 << 20
_Stamp = tuple[str, int, int]  # path, size, modification time in nanoseconds

_known: dict[_Stamp, str] = {}


class ModelUnavailable(Exception):
    """A model that cannot be served here: not in the models directory, or its content is not what was asked for."""


def file_sha256(path: Path) -> str:
    """64 hex digits. Blocks while it reads; a file seen before at the same size and time is not read again."""
    status = path.stat()
    stamp = (str(path.resolve()), status.st_size, status.st_mtime_ns)
    if stamp not in _known:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        _known[stamp] = digest.hexdigest()
    return _known[stamp]


def listing(folder: Path) -> list[list[str | int]]:
    """[path, bytes, SHA-256] of each file below `folder`, by path; hidden files and folders are not part of a model."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return [
        [name, path.stat().st_size, file_sha256(path)]
        for name, path in sorted(files.items())
        if not any(part.startswith(".") for part in name.split("/"))
    ]


def model_digest(folder: Path) -> str:
    """ "sha256:" and 64 hex digits; of a single file, as a LoRA may be, those of its bytes. Raises ModelUnavailable
    where there is no model: no folder, or nothing in it."""
    if folder.is_file():
        return "sha256:" + file_sha256(folder)
    files = listing(folder) if folder.is_dir() else []
    if not files:
        raise ModelUnavailable(
            f"there is no model in {folder}; put its folder there, or write ours with "
            f"`kiln models make-tiny {folder.parent}` and `kiln models add-shapes {folder.parent}`"
        )
    return "sha256:" + sha256_hex(canonical(files))


def verify(folder: Path, digest: str, what: str = "model") -> None:
    """Raises ModelUnavailable unless the content of `folder` is exactly the one named by `digest`."""
    try:
        found = model_digest(folder)
    except OSError as error:
        raise ModelUnavailable(
            f"the {what} in {folder} cannot be read ({error}); check its files' owner and mode"
        ) from error
    if found != digest:
        raise ModelUnavailable(
            f"the {what} in {folder} is {found}, but {digest} was asked for; fetch the right files, or see "
            f"`kiln models digest {folder}`"
        )

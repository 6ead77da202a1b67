"""The folder that is written: ours alone, so that what is no longer rendered is no longer there."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from schemas.errors import CommandError

_MARK = ".written-by-kiln"


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Replace the folder by `files`. Blocks. Raises CommandError where it is not ours or cannot be written."""
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
            raise CommandError(f"{folder} holds what was not rendered; give --out another folder, or empty it")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARK).write_text("kiln infra render replaces all of this folder.\n", encoding="utf-8")
        for name, text in sorted(files.items()):
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error}; give --out another folder") from error

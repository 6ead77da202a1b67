"""Go programs that tests drive: built from pinned modules into .kiln/go."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILT = ROOT / ".kiln" / "go"
_BUILD_SECONDS_MAX = 3600  # of one program, on two busy cores


class GoMissing(Exception):
    """A program cannot be built here; the sentence says why."""


def build(folder: Path, package: str, name: str, *, overlay: Path | None = None) -> Path:
    """Build `package` of the module in `folder` as `name`, which takes a second where nothing has changed.

    What is compiled stays in Go's own cache. Raises GoMissing.
    """
    program = BUILT / name
    options = [] if overlay is None else ["-overlay", str(overlay)]
    _go(folder, "build", "-ldflags=-s -w", *options, "-o", str(program), package)
    return program


def module_folder(folder: Path, module: str) -> Path:
    """Where the source of `module` lies, in the version that the module in `folder` has pinned. Raises GoMissing."""
    _go(folder, "mod", "download", module)
    return Path(_go(folder, "list", "-m", "-f", "{{.Dir}}", module).strip())


def _go(folder: Path, *arguments: str) -> str:
    go = shutil.which("go")
    if go is None:
        raise GoMissing("this needs Go 1.26 or newer, which is not installed (https://go.dev/dl)")
    environment: Mapping[str, str] = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false"}
    done = subprocess.run(
        [go, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=_BUILD_SECONDS_MAX, check=False,
    )  # fmt: skip
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise GoMissing(f"`go {arguments[0]}` in {folder.relative_to(ROOT)} failed: {done.stderr.strip()[-600:]}")
    return done.stdout

"""`kiln` with the environment of a test's deployment: in a process of its own as a person runs it, or in the test's."""

import asyncio
import io
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from streams.cli import main
from tests.kafka import POOL


class Done(NamedTuple):
    code: int | None
    out: str
    err: str


class Kiln:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = {**environment, "COLUMNS": "200"}

    async def __call__(self, *arguments: str) -> Done:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from streams.cli import main; main()", *arguments, env=self.environment,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(child.communicate(), 120)
        return Done(child.returncode, out.decode(), err.decode())

    async def here(self, *arguments: str, stdin: bytes = b"") -> Done:
        """The same in a thread of this process, which spares its start. One at a time: its output is taken from all."""
        return await asyncio.to_thread(self.inside, *arguments, stdin=stdin)

    def inside(self, *arguments: str, stdin: bytes = b"") -> Done:
        """The same where no event loop runs."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
            patched.setattr(sys, "argv", ["kiln", *arguments])
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            for name, value in self.environment.items():
                patched.setenv(name, value)
            with pytest.raises(SystemExit) as end:
                main()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, out.getvalue(), err.getvalue())


def small_deployment(prefix: str, folder: Path) -> dict[str, str]:
    """Of small_catalogue(prefix), its pools in a file of `folder`: what a command must be told of it."""
    pools = folder / "pools.yaml"
    pool = {"gpu_product": "CPU", "vram_bytes": 8 << 30, "price_usd_per_hour": 1, "replicas_max": 2, "partitions": 4}
    pools.write_text(yaml.safe_dump({"pools": {POOL: pool}}))
    return {"KILN_TOPICS_PREFIX": prefix, "KILN_TOPICS_REQUESTS_PARTITIONS": "2", "KILN_POOLS": str(pools)}

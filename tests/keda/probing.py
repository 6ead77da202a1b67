"""KEDA's scalers, asked as its operator asks them: see probe/main.go."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

_PATIENCE_SECONDS = 60
_PAUSE_SECONDS = 0.2


class ScalerError(Exception):
    """What KEDA's code said of a trigger."""


class Reading(NamedTuple):
    """What KEDA sees of one trigger at one poll. `target` is its threshold a replica."""

    value: float
    active: bool
    target: float
    name: str


class Probe:
    """`async with Probe(program) as probe`. One at a time asks."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._process: Process | None = None
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._pushes: dict[str, asyncio.Queue[bool]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(self._program, stdin=PIPE, stdout=PIPE)
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _PATIENCE_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        assert self._listening is not None
        await self._listening

    async def open(self, name: str, kind: str, metadata: Mapping[str, str], index: int = 0) -> None:
        """Make a scaler of a trigger of `kind`. Raises ScalerError where KEDA refuses its metadata."""
        self._pushes[name] = asyncio.Queue()
        await self._ask(op="open", id=name, kind=kind, metadata=dict(metadata), index=index)

    async def poll(self, name: str, *, patience_seconds: float = _PATIENCE_SECONDS) -> Reading:
        """As KEDA's operator does: what fails is asked again, for a new broker still chooses leaders and coordinators.
        Raises ScalerError where it goes on failing."""
        deadline = asyncio.get_running_loop().time() + patience_seconds
        while True:
            try:
                answer = await self._ask(op="poll", id=name)
                break
            except ScalerError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)
        return Reading(answer["value"], answer["active"], answer["target"], answer["name"])

    async def close(self, name: str) -> None:
        await self._ask(op="close", id=name)

    async def pushed(self, name: str) -> bool:
        """The next that a scaler says by itself."""
        return await asyncio.wait_for(self._pushes[name].get(), _PATIENCE_SECONDS)

    async def _ask(self, **wish: Any) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wish).encode() + b"\n")
        answer = await asyncio.wait_for(self._answers.get(), _PATIENCE_SECONDS)
        assert answer["id"] == wish["id"]
        if "error" in answer:
            raise ScalerError(answer["error"])
        return answer

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "push" in said:
                self._pushes[said["id"]].put_nowait(said["push"])
            else:
                self._answers.put_nowait(said)

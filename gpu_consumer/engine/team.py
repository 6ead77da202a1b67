"""EngineTeam: several engine processes on one device, with one copy of the weights, as one engine.

All of them run the same kind. What is sent waits here, strictly in order, until one of them has a slot, so that nobody
waits for one process while another has room; the fullest is filled first, for a padded batch costs the same however few
are in it. They live and die as one (engine/sharing.py says why), but a death is charged to what ran in that process.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import (
    NOT_STARTED,
    Batch,
    Drawn,
    Ended,
    EngineDied,
    Event,
    Item,
    Peak,
    Pulse,
    Ready,
    Refused,
    Share,
)
from gpu_consumer.engine.pulses import merged
from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig


@dataclass(slots=True, eq=False)
class _Worker:
    """One process. `holding`: what it was given and has not drawn."""

    process: EngineProcess
    holding: set[str] = field(default_factory=set)
    pulse: Pulse = field(default_factory=lambda: Pulse("nothing"))
    listening: asyncio.Task[Sequence[Event]] | None = None

    def slots(self, config: GenerationConfig) -> int:
        """As many as it said it has of this kind; before it said anything of it, the bucket."""
        return self.pulse.slots if self.pulse.kind == config.kind and self.pulse.slots else config.bucket


class EngineTeam:
    """An Engine of `workers` processes, for one task at a time. Linux only.

    `starts` and `answers` as of an EngineProcess. `pids`: of the processes, the one that lends its weights first.
    """

    def __init__(
        self,
        settings: EngineSettings,
        preload: Sequence[GenerationConfig] = (),
        *,
        workers: int,
        answers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._settings = settings.model_copy(update={"workers": workers})
        self._preload = tuple(preload)
        self._answers = dict(answers)
        self._board: int | None = None
        self._workers: list[_Worker] = []
        self._queue: deque[tuple[GenerationConfig, Item]] = deque()
        self._at: dict[str, _Worker] = {}  # what was given and has not ended
        self._kind: str | None = None  # of what was given last
        self._said: list[Event] = []
        self._death: EngineDied | None = None
        self._changed = asyncio.Event()
        self.starts = 0

    @property
    def alive(self) -> bool:
        return bool(self._workers) and self._death is None and all(one.process.alive for one in self._workers)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(pid for one in self._workers if (pid := one.process.pid) is not None)

    async def start(self) -> Ready:
        """One after the other: the first lends what the others borrow, and all must draw what the first of them did."""
        await self.stop()
        self.starts += 1
        self._board = os.memfd_create("kiln-board", os.MFD_CLOEXEC)
        self._changed = asyncio.Event()  # of the loop that runs now
        ready: Ready | None = None
        try:
            while len(self._workers) < self._settings.workers:
                process = EngineProcess(self._settings, self._preload, answers=self._answers, board=self._board)
                self._workers.append(_Worker(process))
                said = await process.start()
                self._answers = {**said.answers, **self._answers}
                ready = said if ready is None else replace(ready, timings=_added(ready.timings, said.timings))
        except BaseException:
            await self.stop()
            raise
        assert ready is not None
        return ready

    async def submit(self, batch: Batch) -> None:
        await self._refuse_if_dead()
        self._queue += [(batch.config, item) for item in batch.items]
        await self._hand_out()

    async def leave(self, keys: Collection[str]) -> None:
        await self._refuse_if_dead()
        waiting = [item.key for _, item in self._queue if item.key in keys]
        self._queue = deque(one for one in self._queue if one[1].key not in keys)
        self._said += [Ended(key, None, Share()) for key in waiting]
        self._changed.set()
        for worker in self._workers:
            if theirs := [key for key in keys if self._at.get(key) is worker]:
                await worker.process.leave(theirs)
        await self._hand_out()

    async def learn(self, peaks: Sequence[Peak]) -> None:
        """Tell all of them what others measured. Raises EngineDied."""
        await self._refuse_if_dead()
        for worker in self._workers:
            await worker.process.learn(peaks)

    async def profile(self, steps: int) -> None:
        """Ask the first of them, which is filled first, for a trace of its next `steps` steps. Raises EngineDied."""
        await self._refuse_if_dead()
        await self._workers[0].process.profile(steps)

    async def events(self) -> Sequence[Event]:
        while not self._said:
            if self._death is not None:
                raise self._death
            if not self._workers:
                raise EngineDied(NOT_STARTED)
            await self._listen()
            self._take_in()
            with contextlib.suppress(EngineDied):  # which is heard next, after all that was said before it
                await self._hand_out()
        said, self._said = self._said, []
        return said

    async def stop(self) -> None:
        workers, self._workers = self._workers, []
        board, self._board = self._board, None
        self._queue.clear()
        self._at.clear()
        self._said.clear()
        self._kind = self._death = None
        pids = [one.process.pid for one in workers]
        try:
            for one in workers:
                if one.listening is not None and not one.listening.cancel() and not one.listening.cancelled():
                    one.listening.exception()  # heard of, or it would be a warning
            await asyncio.gather(*(one.process.stop() for one in workers))
        finally:
            if board is not None:
                os.close(board)
        for pid in pids:
            if pid is not None:
                _sweep(pid)

    # From here to them.

    async def _hand_out(self) -> None:
        """Give on what is first for as long as somebody has room for it. Raises EngineDied."""
        while self._queue:
            config, _ = self._queue[0]
            if config.kind != self._kind and any(one.holding for one in self._workers):
                return
            chosen = self._choose(config)
            if chosen is None:
                return
            worker, room = chosen
            items: list[Item] = []
            while self._queue and len(items) < room and self._queue[0][0] == config:
                items.append(self._queue.popleft()[1])
            self._kind = config.kind
            keys = [item.key for item in items]
            worker.holding.update(keys)
            self._at.update(dict.fromkeys(keys, worker))
            await worker.process.submit(Batch(config, tuple(items)))

    def _choose(self, config: GenerationConfig) -> tuple[_Worker, int] | None:
        """Who takes what comes next, and how many of it."""
        if config.batching == "whole":
            idle = next((one for one in self._workers if not one.holding), None)
            return None if idle is None else (idle, config.bucket)
        free = [(one.slots(config) - len(one.holding), one) for one in self._workers]
        if having := [pair for pair in free if pair[0] > 0]:
            room, worker = min(having, key=lambda pair: pair[0])
            return worker, room
        # All are full: a few wait with whoever has the fewest, so that a slot that becomes free is taken at once.
        room, worker = max(free, key=lambda pair: pair[0])
        room += max(1, config.bucket // 4)
        return (worker, room) if room > 0 else None

    # From them to here.

    async def _listen(self) -> None:
        """Until one of them has said something, or the queue was changed."""
        for one in self._workers:
            if one.listening is None:
                one.listening = asyncio.create_task(one.process.events(), name="worker")
        changed = asyncio.create_task(self._changed.wait())
        try:
            hearing = {one.listening for one in self._workers if one.listening is not None}
            await asyncio.wait({changed, *hearing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        self._changed.clear()

    def _take_in(self) -> None:
        for number, worker in enumerate(self._workers, 1):
            task = worker.listening
            if task is None or not task.done():
                continue
            worker.listening = None
            try:
                events = task.result()
            except EngineDied as death:
                # The first alone: who has borrowed of it may die of that, and what runs there is innocent.
                if self._death is None:
                    message = f"worker {number} of {len(self._workers)}: {death}"
                    self._death = EngineDied(message, joined=death.joined)
            else:
                for event in events:
                    self._heed(worker, event)

    def _heed(self, worker: _Worker, event: Event) -> None:
        if isinstance(event, Pulse):
            worker.pulse = event
            event = merged([one.pulse for one in self._workers], self._kind)
        elif isinstance(event, Drawn):
            worker.holding.difference_update(event.keys)
        elif isinstance(event, Ended | Refused):
            for key in event.keys if isinstance(event, Refused) else (event.key,):
                worker.holding.discard(key)
                self._at.pop(key, None)
        self._said.append(event)

    async def _refuse_if_dead(self) -> None:
        if self._death is not None:
            raise self._death
        if not self._workers:
            raise EngineDied(NOT_STARTED)
        for worker in self._workers:
            if not worker.process.alive:
                await worker.process.leave(())  # raises, and says who had joined


def _added(some: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {name: some.get(name, 0.0) + more.get(name, 0.0) for name in {**some, **more}}


def _sweep(process_id: int, directory: Path = Path("/dev/shm")) -> None:  # noqa: S108 - where torch puts them
    """Remove the counters that torch keeps by name for what a process has lent, once that process is gone."""
    for left in directory.glob(f"torch_{process_id}_*"):
        left.unlink(missing_ok=True)

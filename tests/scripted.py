"""An engine for tests that does what it is told: it waits at a gate, dies of a prompt, has no model, or says a flaw."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence

from gpu_consumer.engine.protocol import (
    Batch,
    DeviceInfo,
    Drawn,
    Ended,
    EngineDied,
    Event,
    Flaw,
    Item,
    Joined,
    Picture,
    Pulse,
    Ready,
    Refused,
    Share,
)
from schemas.config import GenerationConfig

Life = tuple[GenerationConfig, Item]


class ScriptedEngine:
    """Takes no time of its own: while the gate is open, everything that has a slot is drawn at once.

    A prompt that begins with `poison` kills it at its first step, one that begins with `blank` gives a flaw. Models of
    a name, and kinds, in `missing` are refused. No batch is larger than `bucket_max`, as where memory is short.
    `runs` is what joined together, `gpu_seconds` what each item costs.
    """

    def __init__(self, gpu_seconds: float = 0.25) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.gpu_seconds = gpu_seconds
        self.missing: set[str] = set()
        self.bucket_max = 256
        self.runs: list[list[Item]] = []
        self.batches: list[Batch] = []
        self.left: list[str] = []
        self.starts = 0
        self.before: Callable[[], object] = lambda: None
        self.alive = False
        self._waiting: deque[Life] = deque()
        self._running: dict[str, Life] = {}
        self._events: list[Event] = []
        self._changed = asyncio.Event()
        self._death = EngineDied("not started")
        self._working: asyncio.Task[None] | None = None

    @property
    def seen(self) -> list[list[str]]:
        """The prompts of what joined together."""
        return [[item.prompt for item in run] for run in self.runs]

    def runs_of(self, job_id: str) -> int:
        """How often a picture of the job joined."""
        return sum(item.key.startswith(job_id) for run in self.runs for item in run)

    async def start(self) -> Ready:
        await self.stop()
        self.alive = True
        self.starts += 1
        self._say(Pulse("nothing"))
        self._working = asyncio.create_task(self._work())
        return Ready(DeviceInfo("scripted", "scripted-0", 0), {}, {"warm": 0.5})

    async def submit(self, batch: Batch) -> None:
        self._refuse_if_dead()
        self.batches.append(batch)
        if {batch.config.model.name, batch.config.kind} & self.missing:
            self._say(Refused(tuple(item.key for item in batch.items), f"there is no {batch.config.model.name}"))
            return
        self._waiting += [(batch.config, item) for item in batch.items]
        self._changed.set()

    async def leave(self, keys: Collection[str]) -> None:
        self._refuse_if_dead()
        self.left += keys
        gone = [key for key in keys if self._running.pop(key, None)]
        waiting = [item.key for _, item in self._waiting if item.key in keys]
        self._waiting = deque(life for life in self._waiting if life[1].key not in keys)
        self._say(*(Ended(key, None, Share(gpu_seconds=self.gpu_seconds / 2)) for key in gone))
        self._say(*(Ended(key, None, Share()) for key in waiting))

    async def events(self) -> Sequence[Event]:
        while not self._events:
            self._refuse_if_dead()
            self._changed.clear()
            await self._changed.wait()
        events, self._events = self._events, []
        return events

    async def stop(self) -> None:
        self.die("stopped")
        self._events = []
        if self._working is not None:
            self._working.cancel()

    def die(self, why: str = "killed") -> None:
        if self.alive:
            self.alive = False
            self._death = EngineDied(why, joined=tuple(self._running))
            self._waiting.clear()
            self._running.clear()
            self._changed.set()

    def say_steps(self, made: Mapping[str, int]) -> None:
        """So many steps it has made of what runs, by key."""
        config = next(iter(self._running.values()))[0]
        self._say(Pulse("step", config.kind, config.bucket, len(self._running), models=(config.model_key,), made=made))

    def _refuse_if_dead(self) -> None:
        if not self.alive:
            raise self._death

    def _say(self, *events: Event) -> None:
        self._events += events
        self._changed.set()

    async def _work(self) -> None:
        while self.alive:
            self._join()
            await asyncio.sleep(0)  # what joined is told before it ends
            if self._running and self.gate.is_set():
                self.before()
                self._step()
            elif self._running:
                gate, changed = (asyncio.ensure_future(each.wait()) for each in (self.gate, self._changed))
                await asyncio.wait({gate, changed}, return_when=asyncio.FIRST_COMPLETED)
                gate.cancel()
                changed.cancel()
            elif not self._waiting:
                await self._changed.wait()
            await asyncio.sleep(0)

    def _join(self) -> None:
        joined: list[Item] = []
        while self._waiting:
            config, item = self._waiting[0]
            other = next(iter(self._running.values()), None)
            if other is not None:
                late = config.batching == "whole" and len(self._running) > len(joined)
                if other[0].kind != config.kind or len(self._running) >= config.bucket or late:
                    break
            self._waiting.popleft()
            self._running[item.key] = (config, item)
            joined.append(item)
        if joined:
            self.runs.append(joined)
            self._say(Joined(tuple(item.key for item in joined)))
            self.say_steps({})

    def _step(self) -> None:
        if any(item.prompt.startswith("poison") for _, item in self._running.values()):
            self.die("killed by a picture")
            return
        self._say(Drawn(tuple(self._running)))
        company = len(self._running)
        for config, item in self._running.values():
            share = Share(
                {"denoise": self.gpu_seconds}, self.gpu_seconds, peak_vram_bytes=5, batch_size=company,
                bucket=config.bucket,
            )  # fmt: skip
            self._say(Ended(item.key, self._outcome(config, item), share))
        self._running.clear()

    def _outcome(self, config: GenerationConfig, item: Item) -> Picture | Flaw:
        if item.prompt.startswith("blank"):
            return Flaw(item.key, "blank_output", "one colour")
        data = f"{config.config_hash}/{item.prompt}/{item.seed}".encode()
        bucket = min(config.bucket, self.bucket_max)
        return Picture(item.key, data, "image/png", "png", config.width, config.height, bucket)

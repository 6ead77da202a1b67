"""The step loop on a virtual device: who joins, draws and ends when. Pure: it says how long a turn takes.

It keeps the rules of the real loops (engine/stepwise/loop.py, engine/protocol.py): strict order of arrival, one kind at
a time, a padded bucket whoever is in it, texts ahead of need in full buckets, a bounded wait for company to decode.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from gpu_consumer.engine.protocol import (
    SEEDS,
    Batch,
    Drawn,
    Ended,
    Event,
    Flaw,
    Joined,
    MemoryReading,
    Observed,
    Peak,
    Pulse,
    Refused,
    Share,
)
from gpu_consumer.engine.stepwise.slots import Slots
from gpu_consumer.engine.virtual.device import VirtualDevice, VirtualMemory
from gpu_consumer.engine.virtual.lives import Life, Session, charge, picture

DECODE_WAIT_STEPS = 4  # as engine/stepwise/loop.py, which imports torch; a test holds them together


@dataclass(frozen=True, slots=True)
class Turn:
    """`seconds` of the device, what is said at its start, and what at its end."""

    seconds: float
    started: Sequence[Event] = ()
    ended: Sequence[Event] = ()


class VirtualLoop:
    """`decode_bucket`: None for the bucket of the session."""

    def __init__(
        self, device: VirtualDevice, *, decode_bucket: int | None = None, decode_wait_steps: int = DECODE_WAIT_STEPS
    ) -> None:
        self._device = device
        self._decode_bucket = decode_bucket
        self._decode_wait_steps = decode_wait_steps
        self._memory = VirtualMemory(device)
        self._waiting: deque[Life] = deque()
        self._lives: dict[str, Life] = {}  # in the session, in the order of joining
        self._drawn: dict[str, int] = {}  # and the step at which each was
        self._session: Session | None = None
        self._said: list[Event] = []
        self._batches = count()
        self._doing_load = False
        self.steps = 0

    def send(self, batch: Batch) -> None:
        number = next(self._batches)
        self._waiting += [Life(batch.config, item, number, batch.config.steps) for item in batch.items]

    def leave(self, keys: Collection[str]) -> None:
        """Gone before the next step, wherever they are; the next turn says so."""
        gone = [life for life in self._waiting if life.item.key in keys]
        self._waiting = deque(life for life in self._waiting if life.item.key not in keys)
        for key in [key for key in self._lives if key in keys]:
            assert self._session is not None
            gone.append(self._lives.pop(key))
            self._session.slots.end(key, "left")
        self._drawn = {key: step for key, step in self._drawn.items() if key not in keys}
        self._said += [Ended(life.item.key, None, self._share(life)) for life in gone]

    def turn(self) -> Turn | None:
        """The next step with all that belongs to it, or a load; None: nothing to do until something is sent."""
        self._close()
        seconds = self._open()
        if seconds:
            return Turn(seconds, self._say(self.pulse()))
        joined = self._join()
        started = self._say(*([Joined(tuple(joined))] if joined else []))
        if self._session is None or self._session.slots.empty:
            return Turn(0.0, started) if started else None
        seconds = self._hear(joined) + self._step() + self._decode()
        self._session.seconds += seconds
        self._session.slots.check()
        return Turn(seconds, started, self._say())

    def pulse(self) -> Pulse:
        reading = MemoryReading(self._memory.used, self._memory.used, self._memory.used, self._memory.free)
        session = self._session
        if session is None:
            return Pulse(
                "load" if self._doing_load else "nothing",
                steps=self.steps,
                models=self._memory.models,
                memory=reading,
            )
        return Pulse(
            "step",
            kind=session.config.kind,
            slots=session.bucket,
            fill=session.bucket - session.slots.free,
            steps=self.steps,
            step_seconds=self._device.step_seconds(session.bucket),
            models=self._memory.models,
            memory=reading,
        )

    def _say(self, *last: Event) -> list[Event]:
        said, self._said = [*self._said, *last], []
        return said

    def _close(self) -> None:
        session = self._session
        if session is None or not session.slots.empty:
            return
        peak = Peak(session.config.kind, session.bucket, self._memory.batch_bytes)
        self._said.append(Observed(peak, session.config.config_hash, session.seconds))
        self._memory.batch_bytes = 0
        self._session = None

    def _open(self) -> float:
        """Give whoever is first a session, if there is none. Seconds of the load that has to come before it."""
        while self._session is None and self._waiting:
            first = self._waiting[0]
            config = first.config
            try:
                seconds = self._memory.load(config.model_key)
            except MemoryError as error:
                self._said.append(Refused((self._waiting.popleft().item.key,), str(error)))
                continue
            if seconds:
                self._doing_load = True
                return seconds
            self._doing_load = False
            bucket = self._memory.slots(config.bucket, config.price.vram_bytes)
            if not bucket:
                message = f"not one picture of {config.label} fits the memory that is free"
                self._end_badly(self._waiting.popleft(), Flaw(first.item.key, "out_of_memory", message))
                continue
            self._memory.batch_bytes = bucket * config.price.vram_bytes
            self._session = Session(config, first.batch, bucket, Slots(bucket))
        return 0.0

    def _join(self) -> list[str]:
        """Strictly in order; another kind waits until everything before it has ended."""
        joined: list[str] = []
        session = self._session
        while session is not None and self._waiting and session.slots.free:
            first = self._waiting[0]
            if first.config.kind != session.config.kind:
                break
            if first.config.batching == "whole" and (session.steps or first.batch != session.batch):
                break
            self._waiting.popleft()
            if first.item.seed not in SEEDS:
                message = f"the seed {first.item.seed} does not fit 64 bits"
                self._end_badly(first, Flaw(first.item.key, "generation_error", message))
                continue
            session.slots.join(first.item.key)
            self._lives[first.item.key] = first
            joined.append(first.item.key)
        return joined

    def _hear(self, joined: Iterable[str]) -> float:
        """Encode the texts of those who joined, in full runs: filled up with, or made of, those who wait."""
        assert self._session is not None
        bucket, kind = self._session.bucket, self._session.config.kind
        deaf = [self._lives[key] for key in joined if not self._lives[key].heard]
        ahead = [life for life in self._waiting if not life.heard and life.config.kind == kind]
        if not deaf and len(ahead) < bucket:
            return 0.0
        runs = max(1, -(-len(deaf) // bucket))
        batch = [*deaf, *ahead][: runs * bucket]
        for life in batch:
            life.heard = True
        return charge(deaf or batch, "text", runs * self._device.text_seconds(bucket))

    def _step(self) -> float:
        assert self._session is not None
        running = [life for key, life in self._lives.items() if key not in self._drawn]
        if not running:
            return 0.0
        self.steps += 1
        self._session.steps += 1
        for life in running:
            life.steps_left -= 1
            life.bill.stepped(len(running))
        drawn = [life.item.key for life in running if not life.steps_left]
        for key in drawn:
            self._session.slots.draw(key)
        self._drawn |= dict.fromkeys(drawn, self.steps)
        if drawn:
            self._said.append(Drawn(tuple(drawn)))
        return charge(running, "denoise", self._device.step_seconds(self._session.bucket))

    def _decode(self) -> float:
        """Full buckets at once; less than one where somebody waited long enough, or nothing else can run."""
        session = self._session
        assert session is not None
        bucket = self._decode_bucket or session.bucket
        total = 0.0
        while self._drawn:
            full, alone = len(self._drawn) >= bucket, len(self._drawn) == len(self._lives)
            if not (full or alone or self.steps - next(iter(self._drawn.values())) >= self._decode_wait_steps):
                break
            keys = list(self._drawn)[:bucket]
            lives = [self._lives.pop(key) for key in keys]
            total += charge(lives, "decode", self._device.decode_seconds(bucket))
            for life in lives:
                del self._drawn[life.item.key]
                session.slots.end(life.item.key, "made")
                self._said.append(
                    Ended(life.item.key, picture(life.config, life.item, session.bucket), self._share(life))
                )
        return total

    def _end_badly(self, life: Life, flaw: Flaw) -> None:
        self._said.append(Ended(life.item.key, flaw, self._share(life)))

    def _share(self, life: Life) -> Share:
        return life.share(self._session.bucket if self._session else 1, self._memory.used)

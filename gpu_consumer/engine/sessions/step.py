"""A session over the step loop: items join and leave at any step, and a batch that does not fit is made smaller."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from gpu_consumer.engine import stages
from gpu_consumer.engine.device import Device
from gpu_consumer.engine.faults import trouble
from gpu_consumer.engine.protocol import Drawn, Ended, Flaw
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions.base import Decoded, Outcome, Wanted, crowded_out
from gpu_consumer.engine.sessions.grants import Grants
from gpu_consumer.engine.stepwise import request as stepwise
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Failed, Request, Shape
from gpu_consumer.memory import half
from gpu_consumer.models.loading import Loaded
from schemas.config import GenerationConfig


@dataclass(frozen=True, slots=True)
class _Try:
    """A batch of `slots` that did not fit, and who of it has not ended since."""

    slots: int
    waiting: set[str]


class StepSession:
    """`config`: the one that opened it, which all others agree with in whatever a batch has only once.

    `on_step` is called after each step; it may call `leave`.
    """

    def __init__(
        self,
        device: Device,
        residence: Residence,
        loaded: Loaded,
        grants: Grants,
        config: GenerationConfig,
        on_step: Callable[[], None],
    ) -> None:
        """Raises ValueError where the model cannot run step by step, ModelUnavailable where a neighbour has its memory,
        and torch.OutOfMemoryError."""
        self.kind = config.kind
        self.config = config
        self.spent = False
        self.peak_bytes = 0
        self._crowded = False  # a neighbour took memory that a batch here ran out of
        self._device = device
        self._residence = residence
        self._loaded = loaded
        self._grants = grants
        self._on_step = on_step
        self._wanted: dict[str, Wanted] = {}
        self._tries: list[_Try] = []
        self._told: set[str] = set()  # drawn, and said so; after a retry they are not drawn a second time
        self._evicted: deque[Request] = deque()  # joined, and wait for a slot of the smaller bucket
        self._engine = self._open(grants.slots(config))

    @property
    def slots(self) -> int:
        return self._engine.shape.bucket

    @property
    def peak_slots(self) -> int:
        return self.slots

    @property
    def free(self) -> int:
        return 0 if self.spent else max(0, self._engine.free_slots - len(self._evicted))

    @property
    def fill(self) -> int:
        return self.slots - self._engine.free_slots

    @property
    def made(self) -> Mapping[str, int]:
        return self._engine.made

    @property
    def idle(self) -> bool:
        return self._engine.idle and not self._evicted

    def join(self, wanted: Sequence[Wanted]) -> None:
        for one in wanted:
            self._wanted[one.key] = one
        self._engine.join([Request.of(one.item, one.config) for one in wanted])

    def expect(self, wanted: Sequence[Wanted]) -> None:
        self._engine.hint(Request.of(one.item, one.config) for one in wanted)

    def leave(self, key: str) -> Ended | None:
        request = self._engine.leave(key)
        if request is None:
            request = next((one for one in self._evicted if one.key == key), None)
            if request is None:
                return None
            self._evicted.remove(request)
        # It may have been what did not fit.
        self._tries = [one for one in self._tries if key not in one.waiting]
        self._forget(key)
        return Ended(key, None, request.bill.share())

    def step(self) -> list[Outcome]:
        while self._evicted and self._engine.free_slots:
            self._engine.join([self._evicted.popleft()])
        found = None
        try:
            ended = self._engine.step()
        except torch.OutOfMemoryError as error:
            found = trouble(error)
        if found is not None:  # outside of `except`: the error's frames hold the batch's tensors
            return self._make_smaller(found.message)
        self._on_step()
        self.peak_bytes = max(self.peak_bytes, self._engine.peak_bytes - self._residence.weights_bytes)
        outcomes = self._outcomes(ended)
        if ended and not self._tries and self._grants.fitting(self.config) > self.slots:
            self.spent = True
        return outcomes

    def _outcomes(self, ended: Sequence[stepwise.Ended]) -> list[Outcome]:
        drawn = [*self._engine.drawn(), *(one.request.key for one in ended)]
        outcomes: list[Outcome] = []
        if untold := tuple(key for key in drawn if key not in self._told):
            self._told.update(untold)
            outcomes.append(Drawn(untold))
        for one in ended:
            wanted = self._forget(one.request.key)
            share = one.request.bill.share()
            if isinstance(one, Failed):
                outcomes.append(Ended(wanted.key, one.flaw, share))
            else:
                cut = stages.warnings(self._loaded, wanted.item)
                outcomes.append(Decoded(wanted, one.pixels, self.slots, cut, share))
        return outcomes

    def _make_smaller(self, message: str) -> list[Outcome]:
        """Half the bucket, and all that are here start again in it, in their order. One that is alone has failed, or is
        refused where a neighbour took the memory."""
        outcomes = self._outcomes(self._engine.take_ended())
        self._evicted.extendleft(reversed(self._engine.evict()))
        slots = self.slots
        del self._engine  # its tensors make room for the next one's
        self._residence.tidy()
        self.peak_bytes = 0  # of another bucket, and of all the memory there was
        if self._grants.neighbour_took(self._free_bytes):
            self.spent = self._crowded = True  # a passing trouble: the next session asks again what is free
        if slots > 1:
            self._tries.append(_Try(slots, {one.key for one in self._evicted}))
            slots = half(slots)
        else:
            # That it does not fit alone says nothing about the others: they get their bucket back, in the next session.
            self.spent = True
            first = self._evicted.popleft()
            if self._crowded:
                outcomes.append(crowded_out(first.key, message))
            else:
                outcomes.append(Ended(first.key, Flaw(first.key, "out_of_memory", message), first.bill.share()))
            self._forget(first.key)
        self._engine = self._open(slots)
        return outcomes

    def _learn(self, key: str) -> None:
        """A batch did not fit for its size once each of those that were in it fitted into a smaller one."""
        if self.spent:
            self._tries.clear()
        for one in self._tries:
            one.waiting.discard(key)
            if not one.waiting:
                self._grants.out_of_memory(self.kind, one.slots)
        self._tries = [one for one in self._tries if one.waiting]

    def _open(self, slots: int) -> Stepwise:
        self._free_bytes = self._grants.free_bytes()
        shape = replace(Shape.of(self.config), bucket=slots)
        item_bytes = self._grants.predicted(self.config, slots) // slots
        return Stepwise(self._device, self._loaded, shape, item_bytes=item_bytes)

    def _forget(self, key: str) -> Wanted:
        self._told.discard(key)
        self._learn(key)
        return self._wanted.pop(key)

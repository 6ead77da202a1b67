"""A session over the pipeline engine: a batch starts and ends together, in the pipeline's own loop."""

from collections.abc import Callable, Mapping, Sequence

from gpu_consumer.engine import stages
from gpu_consumer.engine.account import Account
from gpu_consumer.engine.bill import GPU_STAGES, Bill
from gpu_consumer.engine.device import Device
from gpu_consumer.engine.faults import Trouble
from gpu_consumer.engine.pipeline import PipelineEngine, Pixels, Results
from gpu_consumer.engine.protocol import Drawn, Ended, Flaw, Share
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions.base import Decoded, Outcome, Wanted, crowded_out
from gpu_consumer.engine.sessions.grants import Grants
from gpu_consumer.models.loading import Loaded
from schemas.config import GenerationConfig


class WholeSession:
    """`on_step` is called after each step of the pipeline; it may call `leave`."""

    def __init__(
        self,
        device: Device,
        residence: Residence,
        loaded: Loaded,
        grants: Grants,
        config: GenerationConfig,
        on_step: Callable[[], None],
    ) -> None:
        """Raises ModelUnavailable where a neighbour has its memory."""
        self.kind = config.kind
        self.config = config
        self.spent = False
        self.peak_bytes = 0
        self.peak_slots = config.bucket
        self._device = device
        self._loaded = loaded
        self._residence = residence
        self._grants = grants
        self._slots = grants.slots(config)
        self._on_step = on_step
        self._engine = PipelineEngine(device, residence)
        self._batch: dict[str, Wanted] = {}
        self._bills: dict[str, Bill] = {}
        self._account = Account(device, config.bucket)
        self._charged: dict[str, float] = {}
        self._free_bytes = 0
        self._made: dict[str, int] = {}  # steps of each that joined
        self._trying: Sequence[str] = ()  # those of them that run now
        self._crowded = False  # a neighbour took memory that this batch ran out of

    @property
    def slots(self) -> int:
        return self._account.bucket if self._batch else self._slots

    @property
    def free(self) -> int:
        return 0 if self._batch else self.slots

    @property
    def fill(self) -> int:
        return len(self._batch)

    @property
    def made(self) -> Mapping[str, int]:
        return {key: self._made[key] for key in self._batch}

    @property
    def idle(self) -> bool:
        return not self._batch

    def join(self, wanted: Sequence[Wanted]) -> None:
        self._account = Account(self._device, self._slots)
        self._batch = {one.key: one for one in wanted}
        self._bills = {one.key: Bill() for one in wanted}
        self._free_bytes = self._grants.free_bytes()
        self._made = dict.fromkeys(self._batch, 0)
        self._crowded = False
        self._charged = {}

    def expect(self, wanted: Sequence[Wanted]) -> None:
        """Nothing can be done ahead for a pipeline."""

    def leave(self, key: str) -> Ended | None:
        if key not in self._batch:
            return None
        self._charge()
        del self._batch[key]
        return Ended(key, None, self._close(key))

    def step(self) -> list[Outcome]:
        """All steps of what joined."""
        config = next(iter(self._batch.values())).config
        items = [one.item for one in self._batch.values()]
        results = self._engine.run(
            config, items, self._account,
            begins=self._begins, on_step=self._stepped, gone=lambda key: key not in self._batch,
            ran_out=self._ran_out,
        )  # fmt: skip
        self._charge()
        if fitted := self._account.fitted:
            self.peak_slots = min(fitted)
            self.peak_bytes = fitted[self.peak_slots] - self._residence.weights_bytes
        batch, self._batch = self._batch, {}
        self._learn(results)
        self.spent = True  # the next batch asks again what is free
        if not batch:
            return []
        return [Drawn(tuple(batch)), *(self._outcome(one, results[one.key]) for one in batch.values())]

    def _begins(self, keys: Sequence[str]) -> None:
        """What they had made before is lost; the others of the batch wait, or are done."""
        self._trying = keys
        self._made |= dict.fromkeys(keys, 0)

    def _stepped(self) -> None:
        here = [key for key in self._trying if key in self._batch]
        for key in here:
            self._bills[key].stepped(len(here))
            self._made[key] += 1
        self._on_step()

    def _ran_out(self) -> None:
        """Of memory, which a neighbour may have taken, and may give back before this batch ends."""
        self._crowded = self._crowded or self._grants.neighbour_took(self._free_bytes)

    def _learn(self, results: Results) -> None:
        """A size that was found to fit is that of the next batch. One that only failed says nothing about others."""
        made = [one.bucket for one in results.values() if isinstance(one, Pixels)]
        alone = any(_starved(one) for one in results.values())
        if made and min(made) < self._slots and not alone and not self._crowded:
            self._grants.out_of_memory(self.kind, self._slots)
        self._slots = self._grants.fitting(self.config)

    def _outcome(self, wanted: Wanted, result: Pixels | Trouble) -> Outcome:
        share = self._close(wanted.key)
        if isinstance(result, Pixels):
            return Decoded(wanted, result.pixels, result.bucket, stages.warnings(self._loaded, wanted.item), share)
        if self._crowded and result.out_of_memory:
            return crowded_out(wanted.key, result.message)
        return Ended(wanted.key, Flaw(wanted.key, result.code, result.message), share)

    def _charge(self) -> None:
        """Each stage's seconds since the last time, to those who are here."""
        self._account.lap()
        for stage in GPU_STAGES:
            seconds = self._account.timings.get(stage, 0.0)
            for key in self._batch:
                self._bills[key].charge(stage, (seconds - self._charged.get(stage, 0.0)) / len(self._batch))
            self._charged[stage] = seconds

    def _close(self, key: str) -> Share:
        bill = self._bills.pop(key)
        bill.saw(self._account.peak_bytes)
        bill.ran_in(self._account.bucket)
        return bill.share()


def _starved(one: Pixels | Trouble) -> bool:
    return isinstance(one, Trouble) and one.out_of_memory

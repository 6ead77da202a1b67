"""The fuzz: `python -m tests.fuzz.run --records N --seed S`. Prints what was reached; exits 1 at the first flaw."""

import argparse
import sys
import time
from dataclasses import dataclass, field
from random import Random

from admission.codes import REJECTIONS
from tests.fuzz.edges import Edges, forget
from tests.fuzz.growth import SHAPES, calls_grown, kept_bytes, peak_bytes, time_grown
from tests.fuzz.judge import Feature, Judge
from tests.fuzz.mutate import Mutator
from tests.fuzz.samples import Sample
from tests.fuzz.wire import Wire

_CORPUS_MAX = 2000
_KEPT_SIZE_MAX = 8000  # larger samples would make all that follow from them slow
_TRACED_SIZE_MAX = 20_000
_PEAK_SIZE = 600_000  # some shapes come out half as large again, and must stay below what is read


@dataclass
class Fuzz:
    """A run of one seed. Its corpus is the samples that went where none had gone before; it lives in memory only."""

    seed: int
    corpus: list[Sample] = field(default_factory=list)
    features: set[Feature] = field(default_factory=set)
    edges: Edges = field(default_factory=Edges)

    def __post_init__(self) -> None:
        forget()
        self._chance = Random(self.seed)
        self._mutator = Mutator(self._chance, self.corpus)
        self.judge = Judge(self._chance)

    def step(self) -> None:
        """One more record. Raises AssertionError, or whatever the code under it does, with the record in a note."""
        sample = self._mutator.sample()
        record = self.judge.arrives(sample)
        try:
            if sample.size <= _TRACED_SIZE_MAX:
                verdict, new = self.edges.run(lambda: self.judge.decide(record))
            else:
                verdict, new = self.judge.decide(record), False
            self.judge.check(sample, record, verdict)
        except Exception as error:
            error.add_note(f"seed {self.seed}, record {record.offset}, {sample.size} bytes: {sample!r:.2000}")
            raise
        feature = self.judge.feature(verdict)
        if (new or feature not in self.features) and sample.size <= _KEPT_SIZE_MAX:
            self._keep(sample)
        self.features.add(feature)

    def _keep(self, sample: Sample) -> None:
        if len(self.corpus) < _CORPUS_MAX:
            self.corpus.append(sample)
        else:
            self.corpus[self._chance.randrange(_CORPUS_MAX)] = sample


# What a run of some thousand records comes to; one that does not has shown nothing of what lies behind.
REACHED = frozenset(
    {"accepted", "cancelled", "malformed", "conflicting_duplicate", "SendHome", "TakeBack"}
    | {code for code, entry in REJECTIONS.items() if entry.stages}
)


def grown(shape: str) -> tuple[str, bool]:
    """A line on what ten times the bytes cost, and whether that is in proportion: with room, for machines are noisy."""
    small, large = calls_grown(shape, 10_000)
    peak, allowed = peak_bytes(SHAPES[shape](_PEAK_SIZE))
    longer = time_grown(shape, _PEAK_SIZE // 10)
    line = f"{shape}: calls {small} -> {large}, time x {longer:.1f}, peak {peak >> 10} of {allowed >> 10} KiB"
    return line, large <= 12 * small and longer <= 50 and peak <= allowed


def slope(held: list[int]) -> int:
    """Bytes a round, from the second on: the first one fills the caches."""
    return (held[-1] - held[1]) // (len(held) - 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fuzz = Fuzz(options.seed)
    began = time.process_time()
    for number in range(1, options.records + 1):
        fuzz.step()
        if number % 20_000 == 0 or number == options.records:
            spent = f"{time.process_time() - began:.0f} s"
            print(f"{number} records, {len(fuzz.edges.seen)} edges, {len(fuzz.corpus)} kept, {spent}", flush=True)
    for end, times in fuzz.judge.ends.most_common():
        print(f"  {times:>8} {end}")
    wire = Wire(options.seed)
    for _ in range(options.records // 10):
        wire.step()
    print(f"  {wire.records} more records in {options.records // 10} batches, {wire.unreadable} of them unreadable")
    flaws = [f"{end} was not reached" for end in sorted(REACHED - set(fuzz.judge.ends))]
    for shape in SHAPES:
        line, in_proportion = grown(shape)
        print(f"  {line}", flush=True)
        if not in_proportion:
            flaws.append(f"{shape} cost too much")
    held = list(kept_bytes(options.seed, 2000, fuzz.corpus))
    print(f"  held after each 2000 more: {', '.join(f'{each >> 10} KiB' for each in held)}")
    if slope(held) > 50_000:
        flaws.append("memory grows")
    print(f"flaws: {'; '.join(flaws) or 'none'}")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())

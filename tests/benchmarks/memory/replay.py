"""Mixed sizes and prompt lengths on a card whose memory fragments: how many pictures may run at once?

Five ways to decide it, each over the same pictures, the same neighbour on the card and the same queue (the oldest
picture's kind goes next, with all of that kind that may):

- granted: gpu_consumer.memory, from prices at first, then from measured peaks, asked right before each batch, when
  what the former batch left in the allocator's cache has been given back;
- cached: the same, and the cache is kept: what giving it back is good for;
- fixed: the largest number that never runs out of memory, found by trying; so it is what the largest pictures allow;
- clairvoyant: whatever fits to the byte, by the batch's true peak, on a card whose memory does not fragment;
- greedy: everything that is unused, fragments included, with no margin: what the margin is good for.

On a virtual clock: noise decides nothing.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from gpu_consumer.memory import PeakMemory, half, quantile_of, usable
from tests.benchmarks.memory.allocator import MIB, Allocator, OutOfMemory
from tests.benchmarks.memory.batches import Engine, Wish, batch_seconds

CARD = 24 << 30
_WEIGHTS = [350 * MIB] * 50  # of a model with its text encoders
_NEIGHBOUR_MOST = 1 << 30
_BUCKETS = {512: 8, 768: 4, 1024: 2}
_MIX = {512: 0.60, 768: 0.28, 1024: 0.12}
_TOKENS_MOST = 512
_SHORT = 0.8  # of the prompts are a person's words; the others are written by a language model, of any length
_FIXED_MOST = 8

Slots = Callable[["Card", list[Wish]], int]


@dataclass(slots=True)
class Card:
    """One way's card: its memory, what it learned, and what became of it."""

    engine: Engine = field(default_factory=lambda: Engine(Allocator(CARD), _WEIGHTS))
    memory: PeakMemory = field(default_factory=PeakMemory)
    out_of_memory: int = 0
    batches: int = 0
    slots: int = 0
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def free(self) -> int:
        """As the device reckons it."""
        a = self.engine.allocator
        return usable(a.free, a.reserved, a.allocated, a.split)

    @property
    def throughput(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def p95(self) -> float:
        return quantile_of(self.latencies, 0.95)


def wishes(seed: int, count: int, per_second: float | None) -> list[Wish]:
    """Poisson arrivals; all at once where there is no rate. Prompts are mostly short, and some as long as can be."""
    chance = random.Random(f"wishes {seed}")
    now = 0.0
    made = []
    for number in range(count):
        now += chance.expovariate(per_second) if per_second else 0.0
        side = chance.choices([*_MIX], [*_MIX.values()])[0]
        tokens = chance.randint(8, 77) if chance.random() < _SHORT else chance.randint(78, _TOKENS_MOST)
        made.append(Wish(number, now, side, tokens))
    return made


def replay(seed: int, asked: list[Wish], slots_of: Slots, card: Card | None = None) -> Card:
    """Run all of `asked`. `slots_of` (card, waiting of one kind, the oldest first) says how many slots a batch gets."""
    card = card or Card()
    neighbour = random.Random(f"neighbour {seed}")
    coming, waiting, now = list(reversed(asked)), list[Wish](), 0.0
    while coming or waiting:
        if not waiting:
            now = max(now, coming[-1].arrival)
        while coming and coming[-1].arrival <= now:
            waiting.append(coming.pop())
        _move(card.engine.allocator, neighbour)
        same = [wish for wish in waiting if wish.kind == waiting[0].kind]
        batch, seconds = _run(card, same, slots_of)
        now += seconds
        card.latencies += [now - wish.arrival for wish in batch]
        gone = {wish.number for wish in batch}
        waiting = [wish for wish in waiting if wish.number not in gone]
    card.seconds = now
    return card


def _move(allocator: Allocator, chance: random.Random) -> None:
    """The neighbour takes something else between two batches, never more than is free on the card."""
    wanted = allocator.elsewhere + int(chance.gauss(0, _NEIGHBOUR_MOST / 4))
    allocator.elsewhere = min(max(0, wanted), _NEIGHBOUR_MOST, allocator.elsewhere + allocator.free)


def _run(card: Card, same: list[Wish], slots_of: Slots) -> tuple[list[Wish], float]:
    """One batch of the oldest of `same`, halved while it runs out of memory; lost time is paid."""
    lost, alone = 0.0, False
    slots = slots_of(card, same)
    while True:
        batch = same[:slots]
        seconds = batch_seconds(slots, batch[0].side)
        try:
            peak = card.engine.run(batch, slots)
        except OutOfMemory:
            card.out_of_memory += 1
            card.memory.out_of_memory(batch[0].kind, slots)
            lost += seconds / 2
            card.engine.tidy()
            assert slots > 1 or not alone, f"a picture of {batch[0].kind} does not fit an empty card"
            alone = slots == 1
            slots = half(slots)
            continue
        card.memory.observe(batch[0].kind, slots, peak)
        card.batches += 1
        card.slots += slots
        return batch, lost + seconds


def granted(card: Card, same: list[Wish]) -> int:
    """Ours, as Residence.make_room has it: what the former batch left in the cache goes back to the device first."""
    card.engine.allocator.empty_cache()
    return cached(card, same)


def cached(card: Card, same: list[Wish]) -> int:
    """Ours without that. Where not even one slot is granted, what is kept to save time goes."""
    slots = card.memory.granted(*_asked(same), card.free)
    if not slots:
        card.engine.tidy()
        slots = card.memory.granted(*_asked(same), card.free)
    return max(slots, 1)


def greedy(card: Card, same: list[Wish]) -> int:
    a = card.engine.allocator
    return max(1, card.memory.granted(*_asked(same), a.free + a.reserved - a.allocated, share=1.0))


def fixed(number: int) -> Slots:
    return lambda _, __: number


def clairvoyant(card: Card, same: list[Wish]) -> int:
    """As many of the oldest as truly fit, to the byte."""
    room = CARD - card.engine.allocator.elsewhere - card.engine.weights_bytes
    side = same[0].side
    for slots in range(min(_BUCKETS[side], len(same)), 1, -1):
        if _alone(side, max(wish.tokens for wish in same[:slots]), slots) <= room:
            return slots
    return 1


def boundless() -> Card:
    """A card that cannot run out of memory, for who knows what truly fits."""
    return Card(Engine(Allocator(1 << 50), _WEIGHTS))


def _asked(same: list[Wish]) -> tuple[str, int, int]:
    first = same[0]
    return first.kind, _BUCKETS[first.side], _price(first.side)


@cache
def _alone(side: int, tokens: int, slots: int) -> int:
    """The peak of a batch beside the weights, on an empty card of any size."""
    engine = Engine(Allocator(1 << 50), [])
    return engine.run([Wish(0, 0.0, side, tokens)], slots)


def _price(side: int) -> int:
    """Of one picture, as an operator would set it: measured alone, with the longest prompt."""
    return _alone(side, _TOKENS_MOST, 1)


def best_fixed(seed: int, asked: list[Wish]) -> int:
    """The largest fixed number that makes all of `asked` with the fewest out of memory, at best none."""
    found: dict[int, int] = {}
    for number in range(1, _FIXED_MOST + 1):
        found[number] = replay(seed, asked, fixed(number)).out_of_memory
    return min(found, key=lambda number: (found[number], -number))

"""Where each configuration's work goes, so that every partition has as much and each sees few models. Pure.

A swap of a base model costs about as much as a picture, so a model's work stands on few partitions, next to each other,
for a consumer owns runs of them. Configurations are laid out on a line, the models with most work first, and the line
is cut into partitions of equal work: only what lies across a cut stands on two. Later tables change what they must, so
that what is loaded stays of use.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.control import Placement, Share

_LEAST = 1e-9  # GPU-seconds a second, a picture of a second in thirty years: sums of less are rounding
_NOTHING = 1e-9  # of the mean: below it an amount is rounding
_SLIVER = 0.01  # of the mean: nothing is split for less


class Unit(NamedTuple):
    """What is placed as one: a configuration of a model. Without a hash: all those of it that are not told apart."""

    model: str
    config_hash: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """`tolerance`: how far a partition may be above the mean. `moves_max`: how many units may leave a partition, wholly
    or in part, from one table to the next."""

    tolerance: float = 0.05
    moves_max: int = 16


def place(
    loads: Mapping[Unit, float], partitions: int, previous: Placement | None, bounds: Bounds, *, term: int
) -> Placement:
    """A table for `loads`, in GPU-seconds a second, near the previous one.

    Without a previous one, or with one for another number of partitions, everything is laid out anew. What is not in
    `loads` leaves the table.
    """
    loads = {unit: load for unit, load in loads.items() if load > _LEAST}
    if not loads:
        return Placement(term=term, partitions=partitions, models={})
    if previous is None or previous.partitions != partitions or not previous.configs:
        table = _laid_out(loads, partitions, bounds.tolerance)
    else:
        table = _kept(loads, partitions, previous)
        _level(table, bounds)
    return table.placement(term)


@dataclass(slots=True)
class _Table:
    """Who has how much where, in the unit of the loads."""

    loads: Mapping[Unit, float]
    partitions: int
    amounts: dict[Unit, dict[int, float]] = field(default_factory=dict)
    totals: list[float] = field(default_factory=list)
    models: list[dict[str, int]] = field(default_factory=list)  # of each partition: units that stand there

    def __post_init__(self) -> None:
        self.totals = [0.0] * self.partitions
        self.models = [defaultdict(int) for _ in range(self.partitions)]

    @property
    def mean(self) -> float:
        return sum(self.loads.values()) / self.partitions

    def put(self, unit: Unit, partition: int, amount: float) -> None:
        at = self.amounts.setdefault(unit, {})
        if partition not in at:
            at[partition] = 0.0
            self.models[partition][unit.model] += 1
        at[partition] += amount
        self.totals[partition] += amount

    def move(self, unit: Unit, source: int, target: int, amount: float) -> None:
        self.put(unit, target, amount)
        at = self.amounts[unit]
        at[source] -= amount
        self.totals[source] -= amount
        if at[source] <= _NOTHING * self.mean:
            del at[source]
            self.models[source][unit.model] -= 1
            if not self.models[source][unit.model]:
                del self.models[source][unit.model]

    def on(self, partition: int) -> Iterable[tuple[Unit, float]]:
        return [(unit, at[partition]) for unit, at in self.amounts.items() if partition in at]

    def placement(self, term: int) -> Placement:
        of_models: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for unit, at in self.amounts.items():
            for partition, amount in at.items():
                of_models[unit.model][partition] += amount
        return Placement(
            term=term,
            partitions=self.partitions,
            models={model: _shares(at) for model, at in sorted(of_models.items())},
            configs={unit.config_hash: _shares(at) for unit, at in sorted(self.amounts.items()) if unit.config_hash},
        )


def _shares(at: Mapping[int, float]) -> tuple[Share, ...]:
    total = sum(at.values())
    weights = {number: round(amount / total, 6) for number, amount in sorted(at.items())}
    return tuple(Share(partition=number, weight=weight) for number, weight in weights.items() if weight)


def _laid_out(loads: Mapping[Unit, float], partitions: int, tolerance: float) -> _Table:
    table = _Table(loads, partitions)
    of_models: dict[str, float] = defaultdict(float)
    for unit, load in loads.items():
        of_models[unit.model] += load
    mean, at, position = table.mean, 0, 0.0
    for unit in sorted(loads, key=lambda unit: (-of_models[unit.model], unit.model, -loads[unit], unit.config_hash)):
        left = loads[unit]
        while left > 0:
            room = (at + 1) * mean - position if at < partitions - 1 else math.inf
            fits = left <= room + tolerance * mean and table.totals[at] + left <= (1 + tolerance) * mean
            part = left if fits else min(left, room)
            table.put(unit, at, part)
            left -= part
            position += part
            if position >= (at + 1 - _SLIVER) * mean and at < partitions - 1:
                at += 1
    return table


def _kept(loads: Mapping[Unit, float], partitions: int, previous: Placement) -> _Table:
    """What stood somewhere stays there; what is new goes to its model, or where there is least."""
    table = _Table(loads, partitions)
    new = []
    for unit, load in loads.items():
        shares = previous.configs.get(unit.config_hash)
        if not shares:
            new.append(unit)
            continue
        weights = sum(share.weight for share in shares)
        for share in shares:
            table.put(unit, share.partition, load * (share.weight / weights))
    for unit in sorted(new, key=lambda unit: (-loads[unit], unit)):
        known = [number for number in range(partitions) if unit.model in table.models[number]]
        target = min(known or range(partitions), key=lambda number: (table.totals[number], number))
        table.put(unit, target, loads[unit])
    return table


def _level(table: _Table, bounds: Bounds) -> None:
    """Move the least that makes the fullest partition bearable, as often as the bound allows."""
    mean = table.mean
    for _ in range(bounds.moves_max):
        source = max(range(table.partitions), key=lambda number: (table.totals[number], -number))
        excess = table.totals[source] - mean
        if excess <= bounds.tolerance * mean:
            return
        # The nearest of those with room: neighbours mostly have the same owner.
        target = min(
            (number for number in range(table.partitions) if table.totals[number] < mean),
            key=lambda number: (-min(excess, mean - table.totals[number]) // (bounds.tolerance * mean),
                                abs(number - source), number),
        )  # fmt: skip
        amount = min(excess, mean - table.totals[target])
        room = (1 + bounds.tolerance) * mean - table.totals[target]
        unit, there = _mover(table, source, target, amount, room)
        table.move(unit, source, target, there if there <= room else amount)


def _mover(table: _Table, source: int, target: int, amount: float, room: float) -> tuple[Unit, float]:
    """Which unit of `source` leaves for `target`: one whose model is there already, whole rather than in part."""

    def dislike(pair: tuple[Unit, float]) -> tuple[bool, bool, float, Unit]:
        unit, there = pair
        return (
            there > room,  # it would have to be split
            unit.model not in table.models[target],
            abs(there - amount),
            unit,
        )

    return min(table.on(source), key=dislike)

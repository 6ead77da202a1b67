"""Where a request would go, and why, as `kiln route` says it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from admission.draft import Draft
from admission.question import Answer
from admission.stages.route import way_of
from admission.state import State
from admission.world import World
from schemas.catalogue import DEFAULT_CHANNEL
from schemas.control import Placement, Share
from schemas.counted import counted
from schemas.effects import outcome, spelt
from schemas.request import ConfigRef, Lane
from streams.kafka.groups import Member
from streams.quote import silence, verdict

Shares = Mapping[int, float]  # partition -> its part of all


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """`share` is what the tenant may have outstanding in the lane that was asked for, in GPU-seconds; None: as much as
    it likes. `outstanding` is what it has there, `price` what the request would add."""

    asked: Lane
    taken: Lane
    outstanding: float
    price: float
    share: float | None

    def __str__(self) -> str:
        if self.share is None or self.asked == "bulk":
            return self.taken
        has = f"its tenant has {self.outstanding:g} of {self.share:g} GPU-seconds outstanding in {self.asked}"
        if self.asked != self.taken:
            return f"{self.taken}, instead of {self.asked}: {has}, and this would add {self.price:g}"
        return f"{self.taken}: {has}"


@dataclass(frozen=True, slots=True)
class Table:
    """What control says of a pool's places, as far as it is about one configuration. `followed` is False where it is
    made for more partitions than the pool has."""

    term: int
    partitions: int
    followed: bool
    config: Shares = field(default_factory=dict)
    model: Shares = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.followed:
            return (
                f"term {self.term} is for {counted(self.partitions, 'partition')}, more than the pool has: not followed"
            )
        told = [
            f"{what} at {_in_words(at)}" for what, at in (("configuration", self.config), ("model", self.model)) if at
        ]
        return f"term {self.term}: {'; '.join(told) or 'says nothing of this model'}"


@dataclass(frozen=True, slots=True)
class Consumer:
    id: str
    host: str


@dataclass(frozen=True, slots=True)
class Destination:
    """Fields are None where the answer did not come so far. `leads_to` is all that the reference may come to;
    `consumers` are how many the pool has, `consumer` is the one that has the partition now."""

    enters: bool
    asked: str
    leads_to: str | None = None
    config: str | None = None
    config_hash: str | None = None
    degraded_from: str | None = None
    model_key: str | None = None
    pool: str | None = None
    partitions: int | None = None
    lane: LaneChoice | None = None
    topic: str | None = None
    partition: int | None = None
    found_by: str | None = None
    placement: Table | None = None
    consumers: int | None = None
    consumer: Consumer | None = None
    code: str | None = None
    message: str | None = None
    silent_partitions: tuple[int, ...] = ()

    def had_by(self, members: Sequence[Member]) -> "Destination":
        """The same with who has the partition, `members` being the pool's group."""
        assert self.topic is not None, "it has a destination"
        assert self.partition is not None
        has = next((each for each in members if each.has(self.topic, self.partition)), None)
        return replace(
            self, consumers=len(members), consumer=None if has is None else Consumer(id=has.id, host=has.host)
        )

    def json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        return "\n".join(f"{what:<11}{text}" for what, text in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        if self.config is not None:
            yield "config", self._config()
            yield "model", str(self.model_key)
            yield "pool", f"{self.pool}, of {counted(self.partitions or 0, 'partition')}"
        if self.lane is not None:
            yield "lane", str(self.lane)
        if self.partition is not None:
            yield "partition", f"{self.partition}: {self.found_by}"
            yield "placement", str(self.placement or "control says nothing of this pool")
        if self.consumers is not None:
            yield "consumer", self._consumer()
        yield "verdict", verdict(enters=self.enters, code=self.code, message=self.message)
        if self.silent_partitions:
            yield "note", silence(self.silent_partitions)

    def _config(self) -> str:
        first = self.degraded_from or self.config
        gets = "" if self.leads_to == first else f", which leads to {self.leads_to}"
        by = "" if self.asked == first else f", by {self.asked}{gets}"
        instead = f" instead of {self.degraded_from}: too much waits" if self.degraded_from else ""
        return f"{self.config}{instead}{by}"

    def _consumer(self) -> str:
        if self.consumer is not None:
            return f"{self.consumer.id} at {self.consumer.host}, one of {self.consumers}"
        if self.consumers:
            return f"nobody: the pool's {self.consumers} are sharing its partitions out"
        return "nobody: the pool has no consumer now"


def destination_of(
    ref: ConfigRef, answer: Answer, state: State, world: World, silent: tuple[int, ...] = ()
) -> Destination:
    """As far as it is known: a request that is refused for its quota has a place to go to, too."""
    decision, result = answer.decided.decision, answer.decided.result
    found = Destination(
        enters=answer.accepted,
        asked=_spelt(ref),
        code=decision.code,
        message=None if result is None else result.message,
        silent_partitions=silent,
    )
    if not hasattr(answer.draft, "pool"):
        return found
    draft = answer.draft
    config, placement = draft.config, world.placements.get(draft.config.pool)
    way = way_of(config, draft.name, draft.pool.partitions, placement)
    lane = _lane(draft, state, world) if hasattr(draft, "gpu_seconds") else None  # known from its price on
    return replace(
        found,
        leads_to=outcome(world.configs, ref),
        config=config.label,
        config_hash=config.config_hash,
        degraded_from=draft.degraded_from,
        model_key=config.model_key,
        pool=config.pool,
        partitions=draft.pool.partitions,
        lane=lane,
        topic=None if lane is None else world.catalogue.work(config.pool, lane.taken),
        partition=way.partition,
        found_by=way.by,
        placement=None if placement is None else _table(placement, draft),
    )


def _spelt(ref: ConfigRef) -> str:
    if ref.version is None and ref.channel is None:
        return f"{ref.name}:{DEFAULT_CHANNEL}"
    return spelt(ref)


def _lane(draft: Draft, state: State, world: World) -> LaneChoice:
    allowed = world.tenants.quota_of(draft.tenant)
    assert allowed is not None, "who has a price has a quota"
    asked = draft.request.priority
    outstanding = state.waiting.of_tenant(draft.tenant, asked)
    return LaneChoice(asked, draft.lane, outstanding, draft.gpu_seconds, allowed.outstanding_gpu_seconds)


def _table(placement: Placement, draft: Draft) -> Table:
    config = draft.config
    return Table(
        term=placement.term,
        partitions=placement.partitions,
        followed=placement.partitions <= draft.pool.partitions,
        config=_parts(placement.configs.get(config.config_hash, ())),
        model=_parts(placement.models.get(config.model_key, ())),
    )


def _parts(shares: Sequence[Share]) -> Shares:
    whole = sum(share.weight for share in shares)
    return {share.partition: round(share.weight / whole, 4) for share in shares}


def _in_words(shares: Shares) -> str:
    if len(shares) == 1:
        return str(next(iter(shares)))
    return ", ".join(f"{partition} ({100 * part:.3g} %)" for partition, part in shares.items())

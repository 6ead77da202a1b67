"""The lease of an index and the store, as a member sees them."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from gpu_consumer.backlog import Job
from gpu_consumer.outcomes import Ending
from gpu_consumer.store.outcomes import StoredArtifact
from schemas.outcome import Outcome
from streams.kafka.errors import LeaseVoid
from streams.kafka.lease import Transaction
from streams.kafka.log import Record
from tests.property.pool_model.world import LANE, World

if TYPE_CHECKING:
    from tests.property.pool_model.member import Member


class ModelLease:
    """The epoch of an index. A transaction takes a while, and is committed at one moment or not at all."""

    def __init__(self, world: World, member: "Member", number: int) -> None:
        self._world, self._member, self._number = world, member, number
        self._lock = asyncio.Lock()
        self.epoch = -1
        self.void = False
        self.is_open = False

    async def open(self, fold: Callable[[Record], None]) -> None:
        await self._world.latency()
        self._world.epochs[self._number] += 1
        self.epoch = self._world.epochs[self._number]
        await self._world.latency()
        self._refuse()
        if (value := self._world.ledgers.get(self._number)) is not None:
            fold(cast("Record", SimpleNamespace(key=LANE.encode(), value=value)))
        self.is_open = True

    async def transact(self, build: Callable[[], Transaction]) -> None:
        async with self._lock:
            try:
                self._refuse()
                transaction = build()
                await self._world.latency()
                self._refuse()
                doubtful = self._world.random.random() < self._world.rates.doubts / 10
                if not doubtful or self._world.random.random() < 0.5:
                    self._world.commit(self._number, transaction, self._member)
                if doubtful:
                    if self._number not in self._member.owned:  # it may have handed over what it goes on with
                        self._world.outlived.update(item.job_id for item in self._world.work[self._number])
                    raise LeaseVoid("in doubt")  # noqa: TRY301
                await self._world.latency()
            except BaseException:
                self.void, self.is_open = True, False
                raise

    async def close(self) -> None:
        self.void, self.is_open = True, False
        async with self._lock:
            pass

    def _refuse(self) -> None:
        if self.void or self._member.dead or self._world.epochs[self._number] != self.epoch:
            raise LeaseVoid("fenced")


class ModelOutcomes:
    """The store, in no thread."""

    waiting_for = None
    silence = None

    def __init__(self, world: World) -> None:
        self._world = world

    async def lookup(self, job_ids: Sequence[str]) -> list[Outcome | None]:
        await self._world.latency()
        return [self._world.outcomes.get(job_id) for job_id in job_ids]

    def parts(self, jobs: Sequence[Job]) -> list[Sequence[Job]]:
        return [[job] for job in jobs]

    async def settle(self, endings: Sequence[Ending]) -> list[Outcome]:
        if any(ending.pictures for ending in endings):
            await self._world.latency(0.5)
        offers = [self._offer(ending) for ending in endings]
        await self._world.latency(0.5)
        return [self._world.outcomes.setdefault(offer.job_id, offer) for offer in offers]

    def _offer(self, ending: Ending) -> Outcome:
        places = [StoredArtifact(f"s://{ending.job_id}/{n}", "0" * 64, len(each.data)) for n, each in ending.pictures]
        return ending.outcome(places, 0.0)

"""Broker, group and store of the model, and what must never be."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, cast

from gpu_consumer.assignor import Holding, plan
from gpu_consumer.ledger import Ledger
from schemas.outcome import Outcome
from schemas.request import Lane
from schemas.result import parse_result
from schemas.topics import Catalogue
from schemas.work import WorkItem
from streams.kafka.lease import Transaction
from tests.kafka import POOL, small_catalogue
from tests.property.pool_model.clock import LoopClock
from tests.unit.gpu_consumer.work import EPOCH, config, work_item

if TYPE_CHECKING:
    from tests.property.pool_model.member import Member

INDEXES = 4
LANE: Lane = "standard"
IDLE_SECONDS_MAX = 2.0  # until the outcome that was stored meanwhile is found


@dataclass
class Rates:
    """How often a second what happens."""

    joins: float = 0.05
    drains: float = 0.05
    kills: float = 0.03
    deaths: float = 0.05  # of engines
    cancels: float = 0.2
    doubts: float = 0.03  # transactions of which nobody knows how they ended
    poison: float = 0.02  # the part of the jobs that kills engines


@dataclass
class World:
    """Broker, group and store, and what is not allowed to happen."""

    random: Random
    rates: Rates
    make: "Callable[[World, str], Member]"
    hand_over_seconds: float = 0.25
    work: list[list[WorkItem]] = field(default_factory=lambda: [[] for _ in range(INDEXES)])
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    ledgers: dict[int, bytes] = field(default_factory=dict)
    epochs: Counter[int] = field(default_factory=Counter)
    published: list[Any] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    members: dict[str, "Member"] = field(default_factory=dict)  # of the group
    everybody: list["Member"] = field(default_factory=list)
    outlived: set[str] = field(default_factory=set)  # jobs whose mark was over, or in doubt, when another took them
    together: dict[str, float] = field(default_factory=dict)  # jobs that run in two engines, and since when
    idle: dict[tuple[int, int, str], float] = field(default_factory=dict)  # marks, and since when
    generation: int = 0
    bugs: list[BaseException] = field(default_factory=list)
    catalogue: Catalogue = field(default_factory=lambda: small_catalogue("t", work_partitions=INDEXES))

    def ledger(self, number: int) -> Ledger:
        data = self.ledgers.get(number)
        return Ledger() if data is None else Ledger.decode(data)

    async def latency(self, most: float = 0.06) -> None:
        await asyncio.sleep(self.random.uniform(0.005, most))

    def produce(self, item: WorkItem) -> None:
        number = self.random.randrange(INDEXES)
        self.places[item.job_id] = number, len(self.work[number])
        self.work[number].append(item)

    @property
    def done(self) -> bool:
        return all(self.ledger(n).watermark == len(items) for n, items in enumerate(self.work))

    # The group.

    def rebalance(self) -> None:
        """Each hears of it after a while; nobody hears an old word after a new one."""
        self.generation += 1
        if not self.members:
            return
        held = {name: Holding(tuple(member.owned), member.generation) for name, member in self.members.items()}
        before = {number: name for name, member in self.members.items() for number in member.owned}
        for name, numbers in plan(range(INDEXES), held).items():
            member = self.members[name]
            member.pending = self.generation
            member.owned = set(numbers)
            moved = {number for number in numbers if before.get(number, name) != name}
            asyncio.get_running_loop().call_later(
                self.random.uniform(0, 0.05), member.assigned, self.generation, set(numbers), moved
            )

    async def start(self) -> "Member":
        member = self.make(self, f"m{len(self.everybody)}")
        self.everybody.append(member)
        await member.start()
        self.members[member.name] = member
        self.rebalance()
        return member

    def leave(self, member: "Member") -> None:
        if self.members.pop(member.name, None) is not None:
            self.rebalance()

    # What a transaction carries, and what must be so.

    def commit(self, number: int, transaction: Transaction, by: "Member") -> None:
        for output in transaction.outputs:
            if output.topic == self.catalogue.results:
                self.published.append(parse_result(output.value or b""))
            elif output.topic == self.catalogue.ledger(POOL) and output.key == LANE.encode():
                self._commit_ledger(number, output.value or b"", by)

    def _commit_ledger(self, number: int, value: bytes, by: "Member") -> None:
        before, after = self.ledger(number), Ledger.decode(value)
        now_ms = LoopClock().wall_ms()
        for offset, mark in after.marks.items():
            last = before.marks.get(offset)
            assert number not in by.handed_back or mark.incarnation != by.name, "it was handed back"
            if last is not None and last.incarnation and mark.incarnation not in ("", last.incarnation):
                assert now_ms >= last.until_ms, f"{mark.incarnation} runs what {last.incarnation} may be running"
                self.outlived.add(self.work[number][offset].job_id)
        self.ledgers[number] = value

    def joined(self, member: "Member", job_id: str) -> None:
        """It has a slot: it is marked, if this member speaks for its index at all."""
        number, offset = self.places[job_id]
        ledger = self.ledger(number)
        index = member.owner.get(number)
        if index is None or ledger.done(offset) or member.job(job_id) is None:
            return  # whoever has the index now waits for it, or it is told to leave
        if self.epochs[number] == cast("Any", index._lease).epoch and not member.closing:
            assert offset in ledger.marks, f"{job_id} runs without a mark"
            assert ledger.marks[offset].incarnation == member.name

    def look_for_double_runs(self) -> None:
        """Two engines draw a job for a moment, where it was handed over and leaves; for longer only after its time."""
        running = Counter(job for member in self.everybody for job in member.engine.jobs)
        now = asyncio.get_running_loop().time()
        for job, count in running.items():
            if count > 1 and job not in self.outlived:
                since = self.together.setdefault(job, now)
                assert now - since < 1.0, f"{job} runs twice at once, and its mark is held"
        for job in [each for each in self.together if running[each] < 2]:
            del self.together[job]

    def look_for_idle_marks(self) -> None:
        """Of members that live, and do not make what they have marked, while another one waits for it."""
        now = LoopClock().steady()
        by_name = {member.name: member for member in self.everybody if not member.dead}
        idle = []
        for member in by_name.values():
            for job in member.backlog.jobs.values():
                mark = job.index.ledger(job.lane).marks.get(job.offset) if job.phase == "held" else None
                holder = by_name.get(mark.incarnation) if mark is not None else None
                if holder not in (None, member) and holder.job(job.id) is None:
                    idle.append((job.index.number, job.offset, holder.name))
        self.idle = {each: self.idle.get(each, now) for each in idle}
        late = [each for each, since in self.idle.items() if now - since > IDLE_SECONDS_MAX]
        assert not late, f"nobody stands behind the marks {late}"


def a_job(world: World, n: int, seconds: float) -> WorkItem:
    random = world.random
    kind: dict[str, Any] = random.choice([{}, {}, {"batching": "whole"}, {"bucket": 2, "width": 128}])
    life = random.choice([3600.0, 3600.0, 3600.0, random.uniform(1, 30)])
    prompt = "poison" if random.random() < world.rates.poison else f"job {n}"
    return work_item(
        f"job{n}", config=config(**kind), prompt=prompt, images=random.choice([1, 1, 1, 2, 5, 9]),
        tenant=random.choice(["blue", "red"]), deadline=EPOCH + timedelta(seconds=seconds + life),
    )  # fmt: skip

"""What is known of one pool's work: offsets, records read ahead, and its ledgers. Pure; times are seconds of the wall.

Every source may be away for a while. What one of them does not tell is filled from the others, never with nothing: a
record that was not read counts as the usual one, a mark that is not known as a job that waits.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpu_consumer.ledger import Ledger, Mark
from infra.scaler.signal import EXPIRED_SECONDS, Fleet, Job, Signal, replicas_in_time
from infra.scaling.keda import Partition
from schemas.request import LANES, Lane

_MEAN_OF = 1000  # the usual job is the mean of about so many that came last
_MEASURE_FACTOR = 10  # a measure so far from what a job was priced at is of something broken, or of something else
_LEFT_MIN = 0.1  # of its price: that is a mean, and what runs has not ended yet


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of a pool."""

    lane: Lane
    index: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a record asks for: `gpu_seconds` is its price when it was accepted."""

    gpu_seconds: float
    config_hash: str
    images: int

    def seconds(self, measured: Mapping[str, float]) -> float:
        """As measured since, where it was. What is to be done is never nothing."""
        price = max(self.gpu_seconds, EXPIRED_SECONDS)
        picture = measured.get(self.config_hash)
        if picture is None:
            return price
        return min(max(self.images * picture, price / _MEASURE_FACTOR), price * _MEASURE_FACTOR)


@dataclass(slots=True)
class _Item:
    offset: int
    work: Work | None
    job: Job


@dataclass(slots=True)
class _Part:
    offsets: Partition | None = None
    ledger: Ledger | None = None
    items: deque[_Item] = field(default_factory=deque)
    next: int | None = None  # the offset up to which records were read
    beyond: bool = False  # the ledger, of more than the topic ever held: that one was made anew, or has lost its end

    @property
    def believed(self) -> Ledger | None:
        return None if self.beyond else self.ledger

    @property
    def first(self) -> int:
        """Nothing below it is to be done: the ledger's watermark is what the group's offset follows."""
        known = [0 if (ledger := self.believed) is None else ledger.watermark]
        if self.offsets is not None:
            known += [self.offsets.start, 0 if self.astray else self.offsets.committed or 0]
        return max(known)

    @property
    def astray(self) -> bool:
        """Whether the group's offset, which is asked for before the end, lies above it."""
        return self.offsets is not None and (self.offsets.committed or 0) > self.offsets.end

    def known(self) -> tuple[Collection[_Item], int]:
        """What was read and is not done, and how much is finished beyond the first that is not."""
        ledger = self.believed
        if ledger is None or not ledger.bits:
            return self.items, 0
        return [item for item in self.items if not ledger.done(item.offset)], ledger.bits.bit_count()

    @property
    def marks(self) -> Mapping[int, Mark]:
        return {} if (ledger := self.believed) is None else ledger.marks

    def prune(self) -> None:
        first = self.first
        while self.items and self.items[0].offset < first:
            self.items.popleft()


class Book:
    """For one loop. `items_max`: records of one partition that are remembered; what is beyond is the usual job."""

    def __init__(self, partitions: int, item_seconds: float, items_max: int) -> None:
        self._parts = {Place(lane, index): _Part() for lane in LANES for index in range(partitions)}
        self._items_max = items_max
        self._mean = item_seconds
        self._read = 0
        self._measured: Mapping[str, float] = {}

    @property
    def places(self) -> Iterable[Place]:
        return self._parts

    @property
    def item_seconds(self) -> float:
        """Of the usual job."""
        return self._mean

    def watermarks(self) -> Mapping[Place, int]:
        """Of the ledgers, as they are now. Take them before you ask for ends: see `look`."""
        return {place: part.ledger.watermark for place, part in self._parts.items() if part.ledger is not None}

    def look(self, offsets: Mapping[Place, Partition], watermarks: Mapping[Place, int]) -> None:
        """The group's offsets and the partitions' ends, as the broker has them now. A ledger whose watermark was known
        before an end was asked for, and lies above it, is not believed: it tells of records that are not these."""
        for place, each in offsets.items():
            part = self._parts[place]
            part.offsets = each
            part.beyond = watermarks.get(place, 0) > each.end
            part.prune()

    def look_at_bounds(self, place: Place, start: int, end: int, watermarks: Mapping[Place, int]) -> None:
        """The same where the group's offset is not asked for."""
        known = self._parts[place].offsets
        self.look({place: Partition(None if known is None else known.committed, start, end)}, watermarks)

    def disbelieved(self) -> list[Place]:
        """Where a ledger or the group's offset lies above the end of its partition: all that is there counts."""
        return [place for place, part in self._parts.items() if part.beyond or part.astray]

    def take_ledger(self, place: Place, ledger: Ledger) -> None:
        part = self._parts[place]
        part.ledger = ledger
        part.prune()

    def read_from(self, place: Place) -> int:
        """The next record that is of use."""
        part = self._parts[place]
        return max(part.first, part.next or 0)

    def forget(self, place: Place) -> None:
        """What was read of a partition that does not hold it any more."""
        part = self._parts[place]
        part.items.clear()
        part.next = None

    def room(self, place: Place) -> bool:
        return len(self._parts[place].items) < self._items_max

    def read(self, place: Place, offset: int, work: Work | None, deadline: float) -> None:
        """A record of a lane. `work` None: it does not say, or not so that it can be read here."""
        part = self._parts[place]
        if offset < (part.next or 0):
            return
        if work is None:
            seconds = self._mean
        else:
            seconds = work.seconds(self._measured)
            self._read = min(self._read + 1, _MEAN_OF)
            self._mean += (seconds - self._mean) / self._read
        part.items.append(_Item(offset, work, Job(seconds, deadline)))
        part.next = offset + 1
        part.prune()

    def measure(self, measured: Mapping[str, float]) -> None:
        """GPU-seconds of a picture by config hash, as they are now. What was read before counts by them, too."""
        if measured == self._measured:
            return
        self._measured = measured
        for part in self._parts.values():
            for item in part.items:
                if item.work is not None and item.work.config_hash in measured:
                    item.job = Job(item.work.seconds(measured), item.job.deadline)

    def signal(self, fleet: Fleet, now: float) -> Signal:
        """Takes a time that grows with the records remembered: some 200 ms for a hundred thousand."""
        waiting: dict[str, float] = dict.fromkeys(LANES, 0.0)
        running: list[float] = []
        jobs: list[Job] = []
        expired = alike = 0
        company = Counter(mark.incarnation for part in self._parts.values() for mark in part.marks.values())
        for place, part in self._parts.items():
            known, finished = part.known()
            end = 0 if part.offsets is None else part.offsets.end  # below what was read since, or far above it
            unknown = max(0, end - part.first - finished - len(known))
            alike += unknown
            before, late, marks = len(jobs), 0, part.marks
            for item in known:
                job = item.job
                if (left := _left(marks.get(item.offset), job, now, company)) is not None:
                    running.append(left)
                elif job.deadline > now:
                    jobs.append(job)
                else:
                    late += 1
            expired += late
            seconds = sum(job.seconds for job in jobs[before:])
            waiting[place.lane] += seconds + late * EXPIRED_SECONDS + unknown * self._mean
        pieces = [*running, *(job.seconds for job in jobs), *[EXPIRED_SECONDS] * expired]
        replicas = replicas_in_time(jobs, running, fleet, now)
        return Signal(waiting, sum(running), pieces, alike, self._mean, replicas)


def _left(mark: Mark | None, job: Job, now: float, company: Mapping[str, int]) -> float | None:
    """GPU-seconds of a job that runs, with others of its consumer, of which each gets its part of the device. None: it
    does not run, or nobody believes it any more."""
    if mark is None or not mark.incarnation or now * 1000 >= mark.until_ms:
        return None
    ran = max(0.0, now - mark.since_ms / 1000)  # the holder's clock may be ahead
    return max(job.seconds * _LEFT_MIN, job.seconds - ran / company[mark.incarnation])

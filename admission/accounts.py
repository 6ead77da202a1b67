"""What admission keeps of each tenant and key: its meters, its counts, and its jobs that are not finished."""

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from admission.meters import Levels, refunded
from admission.waiting import Waiting
from schemas.codec import encode
from schemas.composed import outstanding_record
from schemas.decision import Decision
from schemas.tenancy import Outstanding, TenantRecord, UsageRecord, holder_of, job_key, key_of

_REFUNDED = frozenset({"failed", "expired", "cancelled"})  # what succeeded costs its price, whatever it took


class Booking(NamedTuple):
    """An account after a decision. `leaves_ms`: quota time at which it is as good as a new one; None: it stays."""

    name: str
    levels: Levels
    leaves_ms: int | None = None


@dataclass(slots=True)
class Account:
    """accepted = finished + dropped + outstanding, always. Opened by decision number `since`."""

    levels: Levels
    since: int = 0
    leaves_ms: int | None = None
    accepted: int = 0
    rejected: int = 0
    cancelled: int = 0
    finished: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    gpu_seconds: float = 0.0
    turn_ms: int | None = None  # its turn in the queue of those that leave

    @property
    def tokens(self) -> float:
        return self.levels.tokens

    @property
    def outstanding(self) -> int:
        return self.accepted - self.finished - self.dropped

    def record(self) -> TenantRecord:
        levels = self.levels
        return TenantRecord(
            accepted=self.accepted,
            rejected=self.rejected,
            cancelled=self.cancelled,
            finished=self.finished,
            ended=dict(self.ended),
            dropped=self.dropped,
            gpu_seconds=self.gpu_seconds,
            tokens=levels.tokens,
            as_of_ms=levels.as_of_ms,
            gpu=levels.gpu,
            day=levels.day,
            month=levels.month,
            since=self.since,
            leaves_ms=self.leaves_ms,
        )


class Accounts:
    """By name: a tenant's, or tenant/key. Every change is remembered until drain() hands it over as records of the
    tenants topic, and the counts of who left until drain_left() does for usage.

    An account leaves when its time has come and it has no job outstanding, so what is here depends on the clock and the
    records alone, and a successor has the same.
    """

    def __init__(self, slack_ms: int) -> None:
        self.waiting = Waiting()
        self._slack_ms = slack_ms
        self._accounts: dict[str, Account] = {}
        self._jobs: dict[str, Outstanding] = {}
        self._by_deadline: list[tuple[int, str]] = []
        self._by_leaving: list[tuple[int, str]] = []
        self._changed: set[str] = set()
        self._changed_jobs: dict[str, None] = {}  # a set that keeps their order
        self._left: list[tuple[str, Account, int]] = []

    @property
    def jobs(self) -> dict[str, Outstanding]:
        return self._jobs

    def get(self, name: str) -> Account | None:
        return self._accounts.get(name)

    def items(self) -> Iterator[tuple[str, Account]]:
        return iter(self._accounts.items())

    def restore(self, name: str, record: TenantRecord) -> None:
        levels = Levels(record.tokens, record.as_of_ms, record.gpu, record.day, record.month)
        counts = record.model_dump(exclude={"schema_version", "tokens", "as_of_ms", "gpu", "day", "month"})
        self._accounts[name] = Account(levels, **counts)
        self._queue(name, self._accounts[name])

    def restore_job(self, job_id: str, job: Outstanding) -> None:
        self._jobs[job_id] = job
        self.waiting.add(job)
        heapq.heappush(self._by_deadline, (job.deadline_ms, job_id))

    def decided(self, decision: Decision, bookings: tuple[Booking, ...]) -> None:
        """Book a decision. A tenant without a quota has no booking: strangers must not fill the memory."""
        for booking in bookings:
            account = self._accounts.get(booking.name)
            if account is None:
                account = self._accounts[booking.name] = Account(booking.levels, since=decision.number)
            account.levels = booking.levels
            account.leaves_ms = booking.leaves_ms
            match decision.verdict:
                case "accepted":
                    account.accepted += 1
                case "rejected":
                    account.rejected += 1
                case "cancelled":
                    account.cancelled += 1
            self._changed.add(booking.name)
            self._queue(booking.name, account)
        if decision.verdict == "accepted":
            self._start(decision)

    def _start(self, decision: Decision) -> None:
        assert decision.route is not None
        assert decision.deadline_ms is not None
        job = Outstanding(
            tenant=decision.tenant,
            key=decision.key,
            request_id=decision.request_id,
            pool=decision.route.pool,
            lane=decision.route.lane,
            price_gpu_seconds=decision.price_gpu_seconds,
            deadline_ms=decision.deadline_ms,
            payload_digest=decision.payload_digest,
            number=decision.number,
            offset=decision.offset,
            appended_ms=decision.appended_ms,
        )
        self.restore_job(decision.job_id, job)
        self._changed_jobs[decision.job_id] = None

    def finish(self, job_id: str, status: str, gpu_seconds: float) -> Outstanding | None:
        """Book a result, and give back what the job was charged and did not use. None: the job is unknown, already
        finished, or was given up."""
        job = self._jobs.pop(job_id, None)
        if job is None:
            return None
        self.waiting.remove(job)
        used = max(0.0, gpu_seconds) if math.isfinite(gpu_seconds) else 0.0
        unused = max(0.0, job.price_gpu_seconds - used) if status in _REFUNDED else 0.0
        for name, account in self._holding(job):
            account.finished += 1
            account.ended[status] = account.ended.get(status, 0) + 1
            account.gpu_seconds += used
            account.levels = refunded(account.levels, job.number, unused)
            self._queue(name, account)
        self._changed_jobs[job_id] = None
        return job

    def drop_overdue(self, now_ms: int) -> list[tuple[str, Outstanding]]:
        """Give up each job whose deadline and slack are over. What it used is not known: it costs its price."""
        dropped: list[tuple[str, Outstanding]] = []
        while self._by_deadline and self._by_deadline[0][0] + self._slack_ms <= now_ms:
            _, job_id = heapq.heappop(self._by_deadline)
            job = self._jobs.pop(job_id, None)
            if job is not None:
                self.waiting.remove(job)
                for name, account in self._holding(job):
                    account.dropped += 1
                    self._queue(name, account)
                self._changed_jobs[job_id] = None
                dropped.append((job_id, job))
        return dropped

    def _holding(self, job: Outstanding) -> Iterator[tuple[str, Account]]:
        """The accounts of a job, which change."""
        for name in _names(job):
            self._changed.add(name)
            yield name, self._accounts[name]

    def _queue(self, name: str, account: Account) -> None:
        """One turn an account, however often it is used; only one that comes nearer, by a refund or another quota, is
        taken anew."""
        if account.leaves_ms is None or account.outstanding:
            return
        if account.turn_ms is None or account.leaves_ms < account.turn_ms:
            account.turn_ms = account.leaves_ms
            heapq.heappush(self._by_leaving, (account.leaves_ms, name))

    def leave(self, clock_ms: int) -> None:
        """Forget who is as good as new by now."""
        while self._by_leaving and self._by_leaving[0][0] <= clock_ms:
            turn_ms, name = heapq.heappop(self._by_leaving)
            account = self._accounts.get(name)
            if account is None or account.turn_ms != turn_ms:
                continue
            account.turn_ms = None
            if account.outstanding or account.leaves_ms is None:
                continue
            if account.leaves_ms > clock_ms:
                self._queue(name, account)
                continue
            del self._accounts[name]
            self._changed.add(name)
            self._left.append((name, account, clock_ms))

    def drain(self) -> Iterator[tuple[bytes, bytes | None]]:
        for name in sorted(self._changed):
            account = self._accounts.get(name)
            yield name.encode(), None if account is None else encode(account.record())
        for job_id in self._changed_jobs:
            job = self._jobs.get(job_id)
            yield job_key(job_id), None if job is None else outstanding_record(job)
        self._changed.clear()
        self._changed_jobs.clear()

    def drain_left(self, birth: UUID) -> Iterator[tuple[bytes, bytes]]:
        """Records of usage: the last counts of each account that left, in the transaction of its tombstone."""
        for name, account, until_ms in sorted(self._left, key=lambda left: left[0]):
            tenant, key = holder_of(name)
            counts = account.record().model_dump(include={*UsageRecord.model_fields} - {"schema_version"})
            record = UsageRecord(tenant=tenant, key=key, birth=birth, until_ms=until_ms, **counts)
            yield name.encode(), encode(record)
        self._left.clear()

    def check_integrity(self, clock_ms: int) -> None:
        """Assert what must always hold."""
        holders = Counter(name for job in self._jobs.values() for name in _names(job))
        assert holders.keys() <= self._accounts.keys()
        for name, account in self._accounts.items():
            assert account.outstanding == holders[name], "accepted = finished + dropped + outstanding"
            assert account.finished >= sum(account.ended.values())
            assert account.outstanding or account.leaves_ms is None or account.leaves_ms > clock_ms, (
                "it should have left"
            )
            gpu, spans = account.levels.gpu, (account.levels.day, account.levels.month)
            assert account.tokens >= 0
            assert gpu is None or 0 <= gpu.tokens <= gpu.burst
            assert all(span is None or (span.gpu_seconds >= 0 and span.requests >= 0) for span in spans)


def _names(job: Outstanding) -> tuple[str, ...]:
    """Whose accounts a job is in."""
    return (job.tenant,) if job.key is None else (job.tenant, key_of(job.tenant, job.key))

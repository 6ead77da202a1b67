"""What admission keeps of each tenant: its bucket, its counts, and its jobs that are not finished."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from admission.waiting import Waiting
from schemas.codec import encode
from schemas.decision import Decision
from schemas.tenancy import Outstanding, TenantRecord, job_key


@dataclass(slots=True)
class Account:
    """accepted = finished + dropped + outstanding, always."""

    tokens: float
    as_of_ms: int
    accepted: int = 0
    rejected: int = 0
    cancelled: int = 0
    finished: int = 0
    dropped: int = 0
    gpu_seconds: float = 0.0

    def record(self) -> TenantRecord:
        return TenantRecord(
            tokens=self.tokens,
            as_of_ms=self.as_of_ms,
            accepted=self.accepted,
            rejected=self.rejected,
            cancelled=self.cancelled,
            finished=self.finished,
            dropped=self.dropped,
            gpu_seconds=self.gpu_seconds,
        )


class Accounts:
    """Every change is remembered until drain() hands it over as records of the tenants topic."""

    def __init__(self, slack_ms: int) -> None:
        self.waiting = Waiting()
        self._slack_ms = slack_ms
        self._accounts: dict[str, Account] = {}
        self._jobs: dict[str, Outstanding] = {}
        self._by_deadline: list[tuple[int, str]] = []
        self._changed: set[str] = set()
        self._changed_jobs: set[str] = set()

    @property
    def jobs(self) -> dict[str, Outstanding]:
        return self._jobs

    def get(self, tenant: str) -> Account | None:
        return self._accounts.get(tenant)

    def items(self) -> Iterator[tuple[str, Account]]:
        return iter(self._accounts.items())

    def restore(self, tenant: str, record: TenantRecord) -> None:
        self._accounts[tenant] = Account(**record.model_dump(exclude={"schema_version"}))

    def restore_job(self, job_id: str, job: Outstanding) -> None:
        self._jobs[job_id] = job
        self.waiting.add(job)
        heapq.heappush(self._by_deadline, (job.deadline_ms, job_id))

    def decided(self, decision: Decision, clock_ms: int) -> None:
        """Book a decision. A tenant without a quota has no account: strangers must not fill the memory."""
        if decision.bucket_after is None:
            return
        account = self._accounts.get(decision.tenant)
        if account is None:
            account = self._accounts[decision.tenant] = Account(decision.bucket_after, clock_ms)
        account.tokens = decision.bucket_after
        account.as_of_ms = clock_ms
        match decision.verdict:
            case "accepted":
                account.accepted += 1
                self._start(decision)
            case "rejected":
                account.rejected += 1
            case "cancelled":
                account.cancelled += 1
        self._changed.add(decision.tenant)

    def _start(self, decision: Decision) -> None:
        assert decision.route is not None
        assert decision.deadline_ms is not None
        job = Outstanding(
            tenant=decision.tenant,
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
        self._changed_jobs.add(decision.job_id)

    def finish(self, job_id: str, gpu_seconds: float) -> Outstanding | None:
        """Book a result. None: the job is unknown, already finished, or was given up."""
        job = self._jobs.pop(job_id, None)
        if job is None:
            return None
        self.waiting.remove(job)
        account = self._accounts[job.tenant]
        account.finished += 1
        account.gpu_seconds += gpu_seconds
        self._changed.add(job.tenant)
        self._changed_jobs.add(job_id)
        return job

    def drop_overdue(self, now_ms: int) -> Iterator[tuple[str, Outstanding]]:
        """Give up, and yield, each job whose deadline and slack are over."""
        while self._by_deadline and self._by_deadline[0][0] + self._slack_ms <= now_ms:
            _, job_id = heapq.heappop(self._by_deadline)
            job = self._jobs.pop(job_id, None)
            if job is not None:
                self.waiting.remove(job)
                self._accounts[job.tenant].dropped += 1
                self._changed.add(job.tenant)
                self._changed_jobs.add(job_id)
                yield job_id, job

    def drain(self) -> Iterator[tuple[bytes, bytes | None]]:
        for tenant in sorted(self._changed):
            yield tenant.encode(), encode(self._accounts[tenant].record())
        for job_id in sorted(self._changed_jobs):
            job = self._jobs.get(job_id)
            yield job_key(job_id), None if job is None else encode(job)
        self._changed.clear()
        self._changed_jobs.clear()

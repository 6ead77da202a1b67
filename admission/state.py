"""What admission remembers of one requests partition: a fold over decisions, tenants and results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from admission.accounts import Account, Accounts
from admission.arrival import Arrival
from admission.errors import StateRefused
from admission.fold import Fold
from admission.opening import ACCEPT, Start, begin
from admission.settings import AdmissionLimits
from admission.verdict import Decided, Verdict
from admission.waiting import Waiting
from admission.window import Name, Window
from schemas.codec import encode
from schemas.decision import Decision
from schemas.names import request_name
from schemas.result import Cancelled, Expired, Failed, Rejected, Succeeded
from schemas.tenancy import CURSOR_KEY, Cursor, Outstanding

Result = Succeeded | Failed | Rejected | Cancelled | Expired


class Mark(NamedTuple):
    """A moment of a state: the first request offset that was not decided, and the number of the newest decision."""

    next: int
    decided: int


class State:
    """Fold the logs, call opened() once, then apply() each verdict in the order of offsets.

    Not thread-safe, and never rolled back: when a transaction's outcome is unknown, throw the state away and fold anew.
    What drain_changes() returns belongs into the transaction that carries the decisions applied since the last call.
    """

    def __init__(self, partition: int, limits: AdmissionLimits) -> None:
        self.partition = partition
        self._limits = limits
        self._skew_ms = int(limits.clock_skew_seconds * 1000)
        self._fold: Fold | None = Fold(partition)
        self._window = Window(limits.dedupe_window_ms)
        self._accounts = Accounts(limits.outstanding_slack_ms)
        self._at = Start()
        self._results_whole = True

    # Opening ---------------------------------------------------------------------------------------------------------

    def fold_tenants(self, key: bytes, value: bytes | None) -> None:
        """One record of the tenants topic. Raises StateRefused where it cannot be read."""
        assert self._fold is not None, "fold before opened()"
        self._fold.tenants(key, value)

    def fold_decision(self, key: bytes, headers: Sequence[tuple[str, bytes | None]], value: bytes | None) -> None:
        """One record of the decisions topic. Raises StateRefused where its headers are not a decision's."""
        assert self._fold is not None, "fold before opened()"
        self._fold.decision(key, headers, value)

    def is_over(self, headers: Sequence[tuple[str, bytes | None]]) -> bool:
        """Whether a record of decisions and all before it are needed no more, once the tenants topic is folded."""
        assert self._fold is not None, "fold before opened()"
        return self._fold.is_over(headers)

    def opened(
        self,
        birth: Callable[[], UUID],
        log_end: int,
        committed: int | None,
        now_ms: int,
        *,
        results_end: int | None = None,
        accept_loss: bool = False,
    ) -> list[Decision]:
        """End the fold. Returns the accepted decisions whose work may not have been produced, by offset.

        `log_end` and `results_end` are high watermarks of the partition in requests and results, `committed` is the
        group's offset, `now_ms` the wall clock. `birth` mints the id of a partition that never was opened. Raises
        StateRefused, with the cure, where the logs lack what the window needs; with `accept_loss` it goes on from what
        is there: names may be forgotten, and work that was decided and not produced may be lost.
        """
        assert self._fold is not None, "opened() is called once"
        fold, self._fold = self._fold, None
        self._at = begin(
            fold, birth, self.partition, log_end, committed, results_end,
            now_ms=now_ms, window_ms=self._limits.dedupe_window_ms, accept_loss=accept_loss,
        )  # fmt: skip
        for tenant, record in fold.tenant_records():
            self._accounts.restore(tenant, record)
        for job_id, job in fold.jobs():
            self._accounts.restore_job(job_id, job)
        for key, name in fold.names:
            if name.number >= self._at.oldest:
                self._window.add(key, name)
        for job_id, job in self._accounts.jobs.items():
            name = Name(job.number, job.payload_digest, job.offset, job.appended_ms, job_id)
            self._window.hold(request_name(job.tenant, job.request_id), name)
        self._results_whole = results_end is None or self._at.results_next >= results_end
        self._expire(now_ms)
        return [each for each in fold.decisions() if each.verdict == "accepted" and each.offset >= self._at.resend_from]

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def birth(self) -> UUID:
        return self._at.birth

    @property
    def next(self) -> int:
        """The first request offset not decided."""
        return self._at.next

    @property
    def emitted_through(self) -> int:
        """Requests below it have their work produced."""
        return self._at.emitted_through

    @property
    def results_next(self) -> int:
        """The first result offset not folded."""
        return self._at.results_next

    @property
    def results_whole(self) -> bool:
        """Whether all results that there are were folded. Until then no job is given up: its own may be among them."""
        return self._results_whole

    def mark(self) -> Mark:
        """How far this has come."""
        return Mark(self._at.next, self._at.decided)

    @property
    def clock_ms(self) -> int:
        return self._at.clock_ms

    @property
    def decided(self) -> int:
        """The number of the newest decision."""
        return self._at.decided

    @property
    def names(self) -> Window:
        return self._window

    @property
    def outstanding(self) -> Mapping[str, Outstanding]:
        """Accepted jobs without a result, by job id."""
        return self._accounts.jobs

    @property
    def waiting(self) -> Waiting:
        """What of them waits for each pool, in each lane."""
        return self._accounts.waiting

    def name(self, key: bytes, clock_ms: int) -> Name | None:
        """The decision that holds a request's name at `clock_ms`, if any does. Raises StateRefused where that cannot be
        told, since the decisions of that time are gone."""
        if clock_ms < self._at.names_whole_ms:
            raise StateRefused(
                f"a request of partition {self.partition} waited longer than decisions are kept, and whether it is a "
                f"repeat cannot be told; bring the decisions topic back, {ACCEPT}"
            )
        return self._window.get(key, clock_ms, self._accounts.jobs)

    def holder(self, key: bytes) -> Name | None:
        """The decision that holds a request's name for as long as its job is outstanding."""
        name = self._window.get(key, self._at.clock_ms, self._accounts.jobs)
        return name if name is not None and name.job_id in self._accounts.jobs else None

    def accounts(self) -> Iterator[tuple[str, Account]]:
        return self._accounts.items()

    def account(self, tenant: str) -> Account | None:
        return self._accounts.get(tenant)

    def clock_after(self, appended_ms: int, now_ms: int) -> int:
        """Quota time after a record: its LogAppendTime, never back, never more than the skew ahead of our own clock."""
        return max(self._at.clock_ms, min(appended_ms, now_ms + self._skew_ms))

    # Living ----------------------------------------------------------------------------------------------------------

    def apply(self, arrival: Arrival, verdict: Verdict) -> None:
        """Make a verdict true."""
        at = self._at
        assert self._fold is None, "opened() comes first"
        assert arrival.offset >= at.next, f"offset {arrival.offset} was decided before; next is {at.next}"
        at.next = arrival.offset + 1
        at.clock_ms = max(at.clock_ms, verdict.clock_ms)
        if isinstance(verdict, Decided):
            decision = verdict.decision
            assert decision.number == at.decided + 1, "decided against another state"
            at.decided = decision.number
            name = Name(
                decision.number, decision.payload_digest, decision.offset, decision.appended_ms, decision.job_id
            )
            self._window.add(verdict.name, name)
            self._accounts.decided(decision, verdict.bookings)
        self._expire(at.clock_ms)

    def fold_result(self, result: Result | None, offset: int) -> Outstanding | None:
        """One record of results, or None for one that cannot be read. Offsets folded before change nothing. Returns the
        job that it ended."""
        if offset < self._at.results_next:
            return None
        self._at.results_next = offset + 1
        if result is None or isinstance(result, Rejected):
            return None
        job = self._accounts.finish(result.job_id, result.status, result.gpu_seconds)
        if job is not None:
            self._window.release(request_name(job.tenant, job.request_id), result.job_id, self._at.clock_ms)
            self._accounts.leave(self._at.clock_ms)
        return job

    def see_results(self, *, whole: bool, now_ms: int) -> None:
        """What the reader of results has seen by `now_ms` of the wall clock. An opening begins with what is unread."""
        caught_up, self._results_whole = whole and not self._results_whole, whole
        if caught_up:
            self._expire(now_ms)

    def skip_to(self, offset: int) -> None:
        """Nothing but transaction markers is left below `offset` of requests."""
        self._at.next = max(self._at.next, offset)

    def emitted(self, mark: Mark) -> None:
        """All that was decided when mark() gave this is produced and acknowledged."""
        at = self._at
        assert mark.next <= at.next, "nothing is emitted before it is decided"
        assert mark.decided <= at.decided, "nothing is emitted before it is decided"
        at.emitted_through, at.emitted = max(at.emitted_through, mark.next), max(at.emitted, mark.decided)

    def cursor(self) -> Cursor:
        at = self._at
        needed = min(self._window.oldest(at.clock_ms, at.decided + 1), at.emitted + 1)
        return Cursor(
            birth=at.birth,
            next=at.next,
            emitted_through=at.emitted_through,
            clock_ms=at.clock_ms,
            results_next=at.results_next,
            decided=at.decided,
            emitted=at.emitted,
            oldest=at.oldest if at.clock_ms < at.names_whole_ms else needed,
        )

    def drain_changes(self) -> list[tuple[bytes, bytes | None]]:
        """Records of the tenants topic, same partition, that make the logs say what this state says. Never empty."""
        return [*self._accounts.drain(), (CURSOR_KEY, encode(self.cursor()))]

    def drain_left(self) -> list[tuple[bytes, bytes]]:
        """Records of the usage topic, same partition, for the same transaction: the counts of accounts that left."""
        return list(self._accounts.drain_left(self._at.birth))

    def check_integrity(self) -> None:
        """Assert what must always hold."""
        at = self._at
        assert at.emitted_through <= at.next
        assert at.emitted <= at.decided
        self._accounts.check_integrity(at.clock_ms)
        waiting = Waiting()
        for job in self._accounts.jobs.values():
            waiting.add(job)
        assert waiting.by_pool() == self.waiting.by_pool()
        for job in self._accounts.jobs.values():
            name = request_name(job.tenant, job.request_id)
            assert self._window.get(name, at.clock_ms, self._accounts.jobs) is not None

    def _expire(self, now_ms: int) -> None:
        """Jobs first: a name that only an overdue job held leaves with it."""
        for job_id, job in self._accounts.drop_overdue(now_ms) if self._results_whole else ():
            self._window.release(request_name(job.tenant, job.request_id), job_id, self._at.clock_ms)
        self._window.expire(self._at.clock_ms, self._accounts.jobs)
        self._accounts.leave(self._at.clock_ms)

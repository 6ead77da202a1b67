"""Quota over any sequence: a meter grants what it declares, a refund mints nothing, a successor has the same."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.meters import Levels, at, charged, refunded, renewed_ms, shortages
from admission.spans import day_of, month_of
from schemas.codec import encode
from schemas.decision import decode_decision
from schemas.tenancy import TenantRecord, UsageRecord
from schemas.tenants import KeyQuota, Quota, Rate, Span, Tenants
from tests.unit.admission.scene import NOW_MS, Partition, arrival, ended, make_world, request, snapshot

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ROUNDING = 1e-6

RATES = st.builds(Rate, per_second=st.floats(0.001, 100), burst=st.floats(1, 100))
SPANS = st.builds(Span, requests=st.none() | st.integers(1, 20), gpu_seconds=st.none() | st.floats(1, 200))
QUOTAS = st.builds(
    KeyQuota,
    per_second=st.floats(0.001, 100),
    burst=st.floats(1, 100),
    gpu_seconds=st.none() | RATES,
    day=st.none() | SPANS,
    month=st.none() | SPANS,
)
COSTS = st.floats(0.01, 30)
TIMES = st.sampled_from([-DAY_MS, -1, 0, 1, 500, 10_000, HOUR_MS, DAY_MS, 31 * DAY_MS]) | st.integers(-5000, 5000)
STEPS = st.lists(st.tuples(TIMES, COSTS, st.none() | st.tuples(st.integers(0, 5), st.floats(0, 1))), max_size=80)


@dataclass
class Ledger:
    """What the meters granted, judged apart from how they keep it."""

    quota: KeyQuota
    requests: list[tuple[int, float]] = field(default_factory=list)  # (quota time, GPU-seconds), refunds below 0
    refunds: list[tuple[int, int, float]] = field(default_factory=list)  # (charged at, given back at, GPU-seconds)

    def check(self, now_ms: int) -> None:
        """Over every span that ends now; earlier ends were checked earlier."""
        quota = self.quota
        number, seconds = 0, 0.0
        for at_ms, cost in reversed(self.requests):
            number, seconds = number + 1, seconds + cost
            elapsed = (now_ms - at_ms) / 1000
            assert number <= (quota.burst + quota.per_second * elapsed) * (1 + ROUNDING)
            if quota.gpu_seconds is not None:
                back = sum(refund for _, given_ms, refund in self.refunds if given_ms >= at_ms)
                most = quota.gpu_seconds.burst + quota.gpu_seconds.per_second * elapsed
                assert seconds - back <= most * (1 + ROUNDING)
        for span, of in ((quota.day, day_of), (quota.month, month_of)):
            if span is None:
                continue
            inside = [cost for at_ms, cost in self.requests if of(at_ms) == of(now_ms)]
            back = sum(refund for at_ms, _, refund in self.refunds if of(at_ms) == of(now_ms))
            assert span.requests is None or len(inside) <= span.requests
            assert span.gpu_seconds is None or sum(inside) - back <= span.gpu_seconds * (1 + ROUNDING)


@given(QUOTAS, STEPS)
def test_no_meter_grants_more_than_it_declares(quota: KeyQuota, steps: list[Any]) -> None:  # case ADM-02
    levels: Levels | None = None
    moment = clock = NOW_MS
    ledger, jobs = Ledger(quota), dict[int, tuple[int, float]]()
    for number, (step, cost, refund) in enumerate(steps, 1):
        moment += step
        clock = max(clock, moment)
        levels = at(levels, quota, moment, number)  # a stale time, too
        if not list(shortages(levels, quota, cost)):
            levels = charged(levels, cost)
            jobs[number] = (levels.as_of_ms, cost)
            ledger.requests.append((levels.as_of_ms, cost))
        ledger.check(clock)
        if refund is not None and jobs:
            job = sorted(jobs)[refund[0] % len(jobs)]
            charged_ms, price = jobs.pop(job)
            levels = refunded(levels, job, price * refund[1])
            ledger.refunds.append((charged_ms, clock, price * refund[1]))
        _check_bounds(levels, quota)


def _check_bounds(levels: Levels, quota: KeyQuota) -> None:
    assert 0 <= levels.tokens <= quota.burst
    assert (levels.gpu is None) == (quota.gpu_seconds is None)
    if levels.gpu is not None and quota.gpu_seconds is not None:
        assert 0 <= levels.gpu.tokens <= levels.gpu.burst == quota.gpu_seconds.burst
    for use in (levels.day, levels.month):
        assert use is None or use.gpu_seconds >= 0


@given(QUOTAS, STEPS, COSTS)
def test_who_comes_back_when_told_is_let_in(quota: KeyQuota, steps: list[Any], cost: float) -> None:
    levels, moment = at(None, quota, NOW_MS, 1), NOW_MS
    for number, (step, each, _) in enumerate(steps, 2):
        moment = max(moment, moment + step)
        levels = at(levels, quota, moment, number)
        if not list(shortages(levels, quota, each)):
            levels = charged(levels, each)
    waits = [short.wait_ms for short in shortages(levels, quota, cost)]
    if None in waits:
        for later in (HOUR_MS, DAY_MS, 400 * DAY_MS):
            assert list(shortages(at(levels, quota, moment + later, 99), quota, cost)), "never is never"
    elif waits:
        later = max(wait for wait in waits if wait is not None)
        assert list(shortages(at(levels, quota, levels.as_of_ms + later - 1, 99), quota, cost)) or later <= 1
        assert not list(shortages(at(levels, quota, levels.as_of_ms + later, 99), quota, cost))


@given(QUOTAS, STEPS)
def test_meters_that_are_renewed_cannot_be_told_from_new_ones(quota: KeyQuota, steps: list[Any]) -> None:
    levels = at(None, quota, NOW_MS, 1)
    for number, (step, cost, _) in enumerate(steps, 2):
        levels = at(levels, quota, levels.as_of_ms + max(0, step), number)
        if not list(shortages(levels, quota, cost)):
            levels = charged(levels, cost)
    moment = renewed_ms(levels, quota)
    old, new = at(levels, quota, moment, 99), at(None, quota, moment, 99)
    for cost in (0.5, 1.0, 3.0, 10.0, 30.0):
        for _ in range(30):
            mine, theirs = (_asked(each, quota, cost) for each in (old, new))
            assert mine == theirs
            if mine:
                break
            old, new = charged(old, cost), charged(new, cost)


def _asked(levels: Levels, quota: KeyQuota, cost: float) -> list[str]:
    """The rounding of a level that filled up is not what tells two apart."""
    return [short.allows for short in shortages(levels, quota, cost - ROUNDING)]


# Lives ---------------------------------------------------------------------------------------------------------------

TENANTS = Tenants(
    default=Quota(per_second=0.01, burst=3.0, day=Span(gpu_seconds=9.0)),
    tenants={
        "alice": Quota(
            per_second=1.0,
            burst=5.0,
            gpu_seconds=Rate(per_second=0.1, burst=15.0),
            day=Span(requests=12, gpu_seconds=40.0),
            keys={"k": KeyQuota(per_second=0.5, burst=2.0, gpu_seconds=Rate(per_second=0.05, burst=9.0))},
            default_key=KeyQuota(per_second=0.1, burst=1.0, month=Span(requests=4)),
        )
    },
)
STATUSES = ("succeeded", "failed", "expired", "cancelled")
LIFE = st.one_of(
    st.tuples(
        st.just("send"),
        st.tuples(
            st.sampled_from(["alice", "ivan"]),
            st.sampled_from([None, "k", "x", "y"]),
            st.integers(1, 4),
            st.sampled_from([0, 0, 0, -1]),
        ),
    ),
    st.tuples(st.just("time"), st.sampled_from([-HOUR_MS, 1, 1000, 60_000, HOUR_MS, DAY_MS])),
    st.tuples(st.just("result"), st.tuples(st.integers(0, 5), st.sampled_from(STATUSES), st.floats(0, 20))),
    st.tuples(st.just("again"), st.integers(0, 30)),
    st.tuples(st.just("kill"), st.booleans()),
)


class Life:
    """A partition; each step is a transaction, and what is killed reads on from what was written."""

    def __init__(self, *, mortal: bool) -> None:
        self.mortal = mortal
        self.partition = Partition(make_world(tenants=TENANTS, dedupe_window_seconds=60, account_idle_seconds=30))
        self.moment = NOW_MS
        self.results: list[Any] = []
        self.number = 0
        self.used: dict[str, float] = {}

    def step(self, kind: str, what: Any) -> None:
        partition, state = self.partition, self.partition.state
        match kind:
            case "send":
                tenant, key, images, seed = what
                self.number += 1
                body = request(
                    f"r{self.number}", tenant=tenant, images=images, seed=seed, **({"key": key} if key else {})
                )
                partition.decide(arrival(body, state.next, at_ms=self.moment))
            case "time":
                self.moment += what
            case "result" if state.outstanding:
                index, status, gpu_seconds = what
                job_id = sorted(state.outstanding)[index % len(state.outstanding)]
                tenant = state.outstanding[job_id].tenant
                self.used[tenant] = self.used.get(tenant, 0.0) + gpu_seconds
                self.results.append(ended(state, job_id, status, gpu_seconds))
                state.fold_result(self.results[-1], len(self.results) - 1)
            case "again" if self.results:
                offset = what % len(self.results)
                state.fold_result(self.results[offset], offset)
            case "kill" if self.mortal:
                partition.log()
                self.partition.state, _ = partition.take_over(state.clock_ms, compacted=what)
        partition.log()
        partition.state.check_integrity()


@given(st.lists(LIFE, max_size=60))
def test_killed_again_and_again_the_meters_are_those_of_one_that_lived(steps: list[Any]) -> None:
    lived, killed = Life(mortal=False), Life(mortal=True)
    for kind, what in steps:
        lived.step(kind, what)
        killed.step(kind, what)
    assert snapshot(killed.partition.state) == snapshot(lived.partition.state)
    assert killed.partition.usage == lived.partition.usage
    assert killed.partition.decisions == lived.partition.decisions


@given(st.lists(LIFE, max_size=60))
def test_usage_is_what_was_decided_and_ended_whoever_left(steps: list[Any]) -> None:
    life = Life(mortal=True)
    for kind, what in steps:
        life.step(kind, what)
    decisions = [decode_decision(value) for _, _, value in life.partition.decisions]
    records = [account.record() for name, account in life.partition.state.accounts() if "/" not in name]
    gone = [UsageRecord.model_validate_json(value) for key, value in life.partition.usage if b"/" not in key]
    for verdict in ("accepted", "rejected"):
        told = sum(getattr(each, verdict) for each in (*records, *gone))
        assert told == sum(each.verdict == verdict for each in decisions)
    assert sum(each.finished for each in (*records, *gone)) == len(life.results)
    assert abs(sum(each.gpu_seconds for each in (*records, *gone)) - sum(life.used.values())) < ROUNDING
    over = sum(each.finished + each.dropped for each in (*records, *gone))
    assert over + len(life.partition.state.outstanding) == sum(each.verdict == "accepted" for each in decisions)


@given(QUOTAS, STEPS)
def test_a_record_holds_the_meters_to_the_last_bit(quota: KeyQuota, steps: list[Any]) -> None:
    levels = at(None, quota, NOW_MS, 1)
    for number, (step, cost, _) in enumerate(steps, 2):
        levels = at(levels, quota, levels.as_of_ms + step, number)
        if not list(shortages(levels, quota, cost)):
            levels = charged(levels, cost)
    record = TenantRecord(
        tokens=levels.tokens, as_of_ms=levels.as_of_ms, gpu=levels.gpu, day=levels.day, month=levels.month
    )
    assert TenantRecord.model_validate_json(encode(record)) == record

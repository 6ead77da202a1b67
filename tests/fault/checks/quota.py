"""No quota over-granted: the buckets of each tenant replayed from the decisions and the broker's own clock.

When a refund was given is not written anywhere, so GPU-seconds are known within two bounds: had no job been refunded,
and had each job only ever cost what it used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fault.account import Account
from tests.fault.checks.reading import name_of, readable
from tests.fault.history import Flaw, History, Limit

# Sums of a few hundred products of milliseconds and rates.
_ROUNDING_TOKENS = 1e-6
_REFUNDED = frozenset({"failed", "expired", "cancelled"})


@dataclass(slots=True)
class _Bucket:
    burst: float
    per_second: float
    tokens: float
    at_ms: int

    def fill(self, now_ms: int) -> None:
        seconds = max(0, now_ms - self.at_ms) / 1000
        self.tokens = min(self.burst, self.tokens + seconds * self.per_second)
        self.at_ms = max(self.at_ms, now_ms)


@dataclass(slots=True)
class _Buckets:
    """Of one tenant. `least` and `most`: GPU-seconds, of a tenant that has such."""

    requests: _Bucket
    least: _Bucket | None
    most: _Bucket | None

    @classmethod
    def full(cls, limit: Limit, now_ms: int) -> "_Buckets":
        def gpu() -> _Bucket | None:
            burst = limit.gpu_burst
            return None if burst is None else _Bucket(burst, limit.gpu_per_second, burst, now_ms)

        return cls(_Bucket(limit.burst, limit.per_second, limit.burst, now_ms), gpu(), gpu())

    def fill(self, now_ms: int) -> None:
        for bucket in (self.requests, self.least, self.most):
            if bucket is not None:
                bucket.fill(now_ms)

    def charge(self, price: float, cost: float) -> bool:
        """Take a request of `price` that ended up costing `cost`. False: it cannot have been there."""
        there = self.requests.tokens >= 1 - _ROUNDING_TOKENS
        self.requests.tokens -= 1
        if self.least is not None and self.most is not None:
            there = there and self.most.tokens >= price - _ROUNDING_TOKENS
            self.least.tokens = max(0.0, self.least.tokens - price)
            self.most.tokens -= cost
        return there

    def refuses(self, message: str) -> bool:
        """Whether it can be true that too little was there."""
        if "GPU-seconds" not in message:
            return self.requests.tokens < 1 + _ROUNDING_TOKENS
        if self.least is None:
            return False
        return "never passes" in message or self.least.tokens < self.least.burst - _ROUNDING_TOKENS


def check_quota(history: History, account: Account) -> Iterator[Flaw]:
    """Accepted without enough, refused as rate-limited beside enough, or a bucket written down wrong."""
    buckets: dict[str, _Buckets] = {}
    clocks: dict[int, int] = {}
    appended = {record.place: record.timestamp_ms for record in history.requests}
    used = _used(history)
    decided = sorted(readable(history.decisions), key=lambda pair: (pair[0].partition, pair[1].get("offset", -1)))
    for record, body in decided:
        tenant, request_id = name_of(body)
        limit = history.limits.get(tenant)
        moment = appended.get((record.partition, int(body.get("offset", -1))))
        if limit is None or moment is None:
            if body.get("verdict") == "accepted":
                yield Flaw("quota_unknown", f"{record.at} accepts {tenant}/{request_id} without a quota or a request")
            continue
        if body.get("appended_ms") != moment:
            yield Flaw("quota_clock", f"{record.at} says {body.get('appended_ms')}, the broker's clock {moment}")
        now_ms = clocks[record.partition] = max(clocks.get(record.partition, 0), moment)
        bucket = buckets.setdefault(tenant, _Buckets.full(limit, now_ms))
        bucket.fill(now_ms)
        if body.get("verdict") == "accepted":
            price = float(body.get("price_gpu_seconds", 0.0))
            before = bucket.requests.tokens, bucket.most and bucket.most.tokens
            if not bucket.charge(price, min(price, used.get(str(body.get("job_id")), price))):
                yield Flaw("quota_overgranted", f"{record.at} accepts {tenant}/{request_id} of {price} at {before}")
        elif body.get("code") == "rate_limited" and not bucket.refuses(str(body.get("message"))):
            yield Flaw("quota_undergranted", f"{record.at} refuses {tenant}/{request_id} at {bucket}")
        stated = body.get("bucket_after")
        if stated is not None and abs(stated - bucket.requests.tokens) > _ROUNDING_TOKENS:
            yield Flaw("quota_misstated", f"{record.at} leaves {stated} to {tenant}; it has {bucket.requests.tokens}")


def _used(history: History) -> Mapping[str, float]:
    """GPU-seconds of each job that did not succeed: all that it costs in the end."""
    events: list[dict[str, Any]] = [body for _, body in readable(history.results)]
    return {
        str(body.get("job_id")): float(body.get("gpu_seconds", 0.0))
        for body in events
        if body.get("status") in _REFUNDED
    }

"""No quota over-granted: the token bucket of each tenant replayed from the decisions and the broker's own clock."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.fault.account import Account
from tests.fault.checks.reading import name_of, readable
from tests.fault.history import Flaw, History, Limit

# Sums of a few hundred products of milliseconds and rates.
_ROUNDING_TOKENS = 1e-6


@dataclass(slots=True)
class _Bucket:
    limit: Limit
    tokens: float
    at_ms: int

    def fill(self, now_ms: int) -> None:
        seconds = max(0, now_ms - self.at_ms) / 1000
        self.tokens = min(self.limit.burst, self.tokens + seconds * self.limit.per_second)
        self.at_ms = max(self.at_ms, now_ms)


def check_quota(history: History, account: Account) -> Iterator[Flaw]:
    """Accepted without a token, refused as rate-limited beside a whole one, or a bucket written down wrong."""
    buckets: dict[str, _Bucket] = {}
    clocks: dict[int, int] = {}
    appended = {record.place: record.timestamp_ms for record in history.requests}
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
        bucket = buckets.setdefault(tenant, _Bucket(limit, limit.burst, now_ms))
        bucket.fill(now_ms)
        if body.get("verdict") == "accepted":
            if bucket.tokens < 1 - _ROUNDING_TOKENS:
                yield Flaw("quota_overgranted", f"{record.at} accepts {tenant}/{request_id} at {bucket.tokens} tokens")
            bucket.tokens -= 1
        elif body.get("code") == "rate_limited" and bucket.tokens >= 1 + _ROUNDING_TOKENS:
            yield Flaw("quota_undergranted", f"{record.at} refuses {tenant}/{request_id} at {bucket.tokens} tokens")
        stated = body.get("bucket_after")
        if stated is not None and abs(stated - bucket.tokens) > _ROUNDING_TOKENS:
            yield Flaw("quota_misstated", f"{record.at} leaves {stated} tokens to {tenant}; it has {bucket.tokens}")

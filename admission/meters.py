"""What a tenant, or a key of one, may still take: pure. A bucket of requests, one of GPU-seconds, a day and a month.

Only what is declared is kept. A meter that is declared anew is full, and one whose day or month is over begins anew.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from admission.bucket import level, wait_ms
from admission.spans import day_ends_ms, day_of, month_ends_ms, month_of
from schemas.counted import counted
from schemas.tenancy import Level, Use
from schemas.tenants import KeyQuota, Rate, Span

REQUEST = 1.0  # what a request takes of the bucket of requests


class Levels(NamedTuple):
    """Of the meters at quota time `as_of_ms`, both buckets alike. A tuple, since each request makes two of them."""

    tokens: float
    as_of_ms: int
    gpu: Level | None = None
    day: Use | None = None
    month: Use | None = None


class Short(NamedTuple):
    """A meter that has too little: what it allows, and when there is enough; None: never."""

    allows: str
    wait_ms: int | None


def at(levels: Levels | None, quota: KeyQuota, now_ms: int, number: int) -> Levels:
    """The meters at `now_ms`, seen by decision `number`. No levels: all are full."""
    if levels is None:
        tokens, as_of_ms = quota.burst, now_ms
    else:
        tokens = level(levels.tokens, levels.as_of_ms, quota, now_ms)
        as_of_ms = max(levels.as_of_ms, now_ms)
    if quota.gpu_seconds is None and quota.day is None and quota.month is None:
        return Levels(tokens, as_of_ms)
    return Levels(
        tokens,
        as_of_ms,
        None if quota.gpu_seconds is None else _bucket(levels, quota.gpu_seconds, now_ms, number),
        None if quota.day is None else _span(None if levels is None else levels.day, day_of(as_of_ms), number),
        None if quota.month is None else _span(None if levels is None else levels.month, month_of(as_of_ms), number),
    )


def charged_one(levels: Levels | None, quota: KeyQuota, now_ms: int) -> Levels | None:
    """What at() and charged() come to where requests alone are metered and one is left, as of most accounts. None: it
    is for those and for shortages() to tell."""
    if quota.gpu_seconds is not None or quota.day is not None or quota.month is not None:
        return None
    if levels is None:
        return Levels(quota.burst - REQUEST, now_ms)
    tokens, as_of_ms = level(levels.tokens, levels.as_of_ms, quota, now_ms), levels.as_of_ms
    return None if tokens < REQUEST else Levels(tokens - REQUEST, now_ms if now_ms > as_of_ms else as_of_ms)


def shortages(levels: Levels, quota: KeyQuota, gpu_seconds: float) -> Iterator[Short]:
    """The meters that cannot give a request of `gpu_seconds`; none: it may be charged. `levels` are as of at()."""
    if levels.tokens < REQUEST:
        yield Short(_rate(quota, "requests"), wait_ms(levels.tokens, quota, REQUEST))
    rate = quota.gpu_seconds
    if rate is not None and levels.gpu is not None and levels.gpu.tokens < gpu_seconds:
        never = gpu_seconds > rate.burst
        yield Short(_rate(rate, "GPU-seconds"), None if never else wait_ms(levels.gpu.tokens, rate, gpu_seconds))
    if quota.day is not None and levels.day is not None:
        wait = day_ends_ms(levels.day.span) - levels.as_of_ms
        yield from _over(levels.day, quota.day, gpu_seconds, "a day (UTC)", wait)
    if quota.month is not None and levels.month is not None:
        wait = month_ends_ms(levels.month.span) - levels.as_of_ms
        yield from _over(levels.month, quota.month, gpu_seconds, "a month (UTC)", wait)


def charged(levels: Levels, gpu_seconds: float) -> Levels:
    """What is left once a request was taken from every meter."""
    gpu, day, month = levels.gpu, levels.day, levels.month
    tokens = levels.tokens - REQUEST
    if gpu is None and day is None and month is None:
        return Levels(tokens, levels.as_of_ms)
    return Levels(
        tokens,
        levels.as_of_ms,
        gpu and replace(gpu, tokens=gpu.tokens - gpu_seconds),
        day and replace(day, requests=day.requests + 1, gpu_seconds=day.gpu_seconds + gpu_seconds),
        month and replace(month, requests=month.requests + 1, gpu_seconds=month.gpu_seconds + gpu_seconds),
    )


def refunded(levels: Levels, number: int, gpu_seconds: float) -> Levels:
    """With GPU-seconds that the job of decision `number` did not use given back where they were taken.

    A bucket keeps no more than its burst, and a day or a month that is over gets nothing. To cap before the bucket is
    filled gives the same as to cap after: min(b, min(b, x + refund) + fill) = min(b, x + refund + fill).
    """
    gpu = levels.gpu
    if gpu is not None and number >= gpu.since:
        gpu = replace(gpu, tokens=min(gpu.burst, gpu.tokens + gpu_seconds))
    day, month = _given_back(levels.day, number, gpu_seconds), _given_back(levels.month, number, gpu_seconds)
    return Levels(levels.tokens, levels.as_of_ms, gpu, day, month)


def renewed_ms(levels: Levels, quota: KeyQuota) -> int:
    """When nobody can tell these meters from new ones, if nothing more is taken."""
    moments = [levels.as_of_ms + wait_ms(levels.tokens, quota, quota.burst)]
    if quota.gpu_seconds is not None and levels.gpu is not None:
        moments.append(levels.as_of_ms + wait_ms(levels.gpu.tokens, quota.gpu_seconds, quota.gpu_seconds.burst))
    if levels.day is not None and levels.day.requests:
        moments.append(day_ends_ms(levels.day.span))
    if levels.month is not None and levels.month.requests:
        moments.append(month_ends_ms(levels.month.span))
    return max(moments)


def _bucket(levels: Levels | None, rate: Rate, now_ms: int, number: int) -> Level:
    if levels is None or levels.gpu is None:
        return Level(rate.burst, rate.burst, number)
    return Level(level(levels.gpu.tokens, levels.as_of_ms, rate, now_ms), rate.burst, levels.gpu.since)


def _span(use: Use | None, span: int, number: int) -> Use:
    return use if use is not None and use.span >= span else Use(span, number)


def _over(use: Use, span: Span, gpu_seconds: float, name: str, wait: int) -> Iterator[Short]:
    if span.requests is not None and use.requests >= span.requests:
        yield Short(f"{counted(span.requests, 'request')} {name}", wait)
    if span.gpu_seconds is not None and use.gpu_seconds + gpu_seconds > span.gpu_seconds:
        never = gpu_seconds > span.gpu_seconds
        yield Short(f"{counted(span.gpu_seconds, 'GPU-second')} {name}", None if never else wait)


def _given_back(use: Use | None, number: int, gpu_seconds: float) -> Use | None:
    if use is None or number < use.since:
        return use
    return replace(use, gpu_seconds=max(0.0, use.gpu_seconds - gpu_seconds))


def _rate(rate: Rate, what: str) -> str:
    return f"{rate.burst:g} {what} at once and {rate.per_second:g} a second"

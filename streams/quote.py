"""What a request would cost and how long it would wait, as `kiln quote` says it. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from admission.accounts import Booking
from admission.estimate import NONE_THERE
from admission.meters import Levels
from admission.question import Answer
from admission.world import World
from schemas.cost import cost_usd
from schemas.counted import counted
from schemas.tenancy import Use, holder_of
from schemas.tenants import KeyQuota, Span


@dataclass(frozen=True, slots=True)
class Left:
    """Of one account's quota, once the request is paid from it; None where no such meter is declared."""

    account: str
    requests: float
    gpu_seconds: float | None
    day_requests: int | None
    day_gpu_seconds: float | None
    month_requests: int | None
    month_gpu_seconds: float | None


@dataclass(frozen=True, slots=True)
class Quote:
    """Fields are None where the answer did not come so far. `wait_*`: until its turn, in seconds, with the GPUs that
    are there now, if any, and with all that the pool may have. `silent_partitions` of requests told nothing of late,
    and what waits in them is not counted."""

    enters: bool
    config: str | None = None
    degraded_from: str | None = None
    pool: str | None = None
    lane: str | None = None
    gpu_seconds: float | None = None
    usd: float | None = None
    gpus_now: int | None = None
    gpus_max: int | None = None
    wait_seconds_now: float | None = None
    wait_seconds_soonest: float | None = None
    left: tuple[Left, ...] = ()
    code: str | None = None
    message: str | None = None
    retry_after_seconds: float | None = None
    silent_partitions: tuple[int, ...] = ()

    def json(self) -> dict[str, Any]:
        found = asdict(self)
        found["left"] = [{name: value for name, value in each.items() if value is not None} for each in found["left"]]
        return {name: value for name, value in found.items() if value is not None}

    def __str__(self) -> str:
        return "\n".join(f"{what:<10}{text}" for what, text in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        if self.config is not None:
            instead = f", instead of {self.degraded_from}: too much waits" if self.degraded_from else ""
            yield "config", f"{self.config}{instead}"
        if self.gpu_seconds is not None:
            yield "price", f"{counted(self.gpu_seconds, 'GPU-second')}, {self.usd:.4f} USD"
        if self.wait_seconds_soonest is not None:
            yield "wait", self._wait()
        if self.lane is not None:
            yield "lane", self.lane
        for each in self.left:
            yield "quota", f"{each.account} then has {', '.join(_in_words(each))} left"
        yield "verdict", verdict(enters=self.enters, code=self.code, message=self.message)
        if self.silent_partitions:
            yield "note", silence(self.silent_partitions)

    def _wait(self) -> str:
        soonest = f"{self.wait_seconds_soonest:.0f} s with all {self.gpus_max} of pool {self.pool}"
        if self.gpus_now is None:
            return soonest
        if self.gpus_now == 0:
            return f"{soonest} ({NONE_THERE})"
        return f"{self.wait_seconds_now:.0f} s with the {counted(self.gpus_now, 'GPU')} now, {soonest}"


def verdict(*, enters: bool, code: str | None, message: str | None) -> str:
    """In words; of `kiln route`, too."""
    return "it would enter" if enters else f"it would be refused, {code}: {message}"


def silence(partitions: Iterable[int]) -> str:
    """What an answer is worth where these partitions of requests say nothing."""
    silent = sorted(partitions)
    some = f"partition{'s' if len(silent) > 1 else ''} {', '.join(map(str, silent))}"
    return f"{some} of requests told nothing of late; what waits in them is not counted"


def quote_of(answer: Answer, world: World, silent: tuple[int, ...]) -> Quote:
    draft, decision, wait, result = answer.draft, answer.decided.decision, answer.wait, answer.decided.result
    config, seconds = getattr(draft, "config", None), getattr(draft, "gpu_seconds", None)
    usd = None if seconds is None else float(cost_usd(seconds, draft.pool.price_usd_per_hour))
    return Quote(
        enters=answer.accepted,
        config=None if config is None else config.label,
        degraded_from=draft.degraded_from,
        pool=None if config is None else config.pool,
        lane=None if decision.route is None else decision.route.lane,
        gpu_seconds=seconds,
        usd=usd,
        gpus_now=None if wait is None else wait.gpus,
        gpus_max=None if wait is None else wait.full,
        wait_seconds_now=wait.now_seconds if wait is not None and wait.gpus else None,
        wait_seconds_soonest=None if wait is None else wait.soonest_seconds,
        left=tuple(_left(each, world) for each in answer.decided.bookings),
        code=decision.code,
        message=None if result is None else result.message,
        retry_after_seconds=getattr(result, "retry_after_seconds", None),
        silent_partitions=silent,
    )


def _left(booking: Booking, world: World) -> Left:
    tenant, key = holder_of(booking.name)
    allowed = world.tenants.quota_of(tenant)
    assert allowed is not None, "who has a booking has a quota"
    declared: KeyQuota | None = allowed if key is None else allowed.keys.get(key, allowed.default_key)
    levels: Levels = booking.levels
    day = _of_span(levels.day, None if declared is None else declared.day)
    month = _of_span(levels.month, None if declared is None else declared.month)
    return Left(booking.name, levels.tokens, None if levels.gpu is None else levels.gpu.tokens, *day, *month)


def _of_span(use: Use | None, span: Span | None) -> tuple[int | None, float | None]:
    if use is None or span is None:
        return None, None
    return (
        None if span.requests is None else span.requests - use.requests,
        None if span.gpu_seconds is None else span.gpu_seconds - use.gpu_seconds,
    )


def _in_words(left: Left) -> Iterator[str]:
    for value, what, when in (
        (left.requests, "request", ""),
        (left.gpu_seconds, "GPU-second", ""),
        (left.day_requests, "request", " today (UTC)"),
        (left.day_gpu_seconds, "GPU-second", " today (UTC)"),
        (left.month_requests, "request", " this month"),
        (left.month_gpu_seconds, "GPU-second", " this month"),
    ):
        if value is not None:
            yield f"{counted(value, what)}{when}"

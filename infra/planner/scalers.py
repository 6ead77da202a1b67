"""Who says how many replicas there should be: the HPA and KEDA as they are, of several signals, and two that are not
there to be had: a fixed number, and one that knows what will come.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra.planner.consumer import Consumer
from infra.planner.pool import Pool
from infra.scaler.signal import Fleet, Signal, replicas_in_time
from infra.scaling.hpa import SYNC_SECONDS, Behaviour, Hpa
from infra.scaling.keda import Activation, active, capped, summed
from schemas.pools import Pool as Declared
from schemas.request import LANES

_MEAN_OF_SECONDS = 60.0  # what a card's exporter and its scraper make of its utilisation


@dataclass(frozen=True, slots=True)
class Rules:
    """What a ScaledObject says beside its signal."""

    behaviour: Behaviour
    replicas_min: int
    replicas_max: int
    polling_seconds: float = 5.0
    cooldown_seconds: float = 300.0


class Fixed:
    def __init__(self, size: int) -> None:
        self._size = size

    def look(self, now: float, pool: Pool) -> float:
        pool.scale(self._size, now)
        return math.inf


class Utilisation:
    """The HPA on how busy the cards are, of those that are ready. It never goes below one."""

    def __init__(self, rules: Rules, target: float) -> None:
        self._hpa = Hpa(rules.behaviour, rules.replicas_min, rules.replicas_max)
        self._least = max(1, rules.replicas_min)
        self._target = target
        self._seen: deque[tuple[float, dict[str, float]]] = deque()

    def look(self, now: float, pool: Pool) -> float:
        ready = [each for each in pool.staying() if each.ready]
        mean = self._mean(now, ready)
        have = pool.size or self._least
        wish = self._hpa.wish_mean(now, mean, self._target, len(ready), have) if ready else have
        if wish != pool.size:
            pool.scale(wish, now)
        return now + SYNC_SECONDS

    def _mean(self, now: float, ready: Sequence[Consumer]) -> float:
        busy = {each.name: each.busy(now) for each in ready}
        self._seen.append((now, busy))
        while self._seen[0][0] < now - _MEAN_OF_SECONDS:
            self._seen.popleft()
        shares = []
        for name, seconds in busy.items():
            since, before = next((at, seen[name]) for at, seen in self._seen if name in seen)
            shares.append((seconds - before) / (now - since) if now > since else 0.0)
        return sum(shares) / len(shares) if shares else 0.0


class Keda:
    """A poll wakes and lays to sleep; in between the HPA looks. `value` is 0 where nothing is to be done, and nowhere
    else."""

    def __init__(self, rules: Rules, value: Callable[[float, Pool], float], target: float, activation: float) -> None:
        self._rules = rules
        self._hpa = Hpa(rules.behaviour, rules.replicas_min, rules.replicas_max)
        self._activation = Activation(rules.replicas_min, rules.cooldown_seconds)
        self._value = value
        self._target = target
        self._above = activation
        self._poll_at = self._sync_at = 0.0

    def look(self, now: float, pool: Pool) -> float:
        pool.expire(now)
        have = size = pool.size
        syncs = now >= self._sync_at
        # A poll asks whether it is above 0: that is known without summing up.
        value = self._value(now, pool) if syncs or self._above else float(pool.works)
        if now >= self._poll_at:
            self._poll_at = now + self._rules.polling_seconds
            size = self._activation.wish(now, active(value, self._above), size)
        if syncs:
            self._sync_at = now + SYNC_SECONDS
            size = self._hpa.wish(now, value, self._target, size)
        if size != have:
            pool.scale(size, now)
        return min(self._poll_at, self._sync_at)


def lag(threshold: int) -> Callable[[float, Pool], float]:
    """What KEDA's three Kafka triggers and our formula make of the group's offsets."""

    def value(now: float, pool: Pool) -> float:
        del now
        return summed(capped(pool.lags[lane], pool.partitions, threshold=threshold) for lane in LANES)

    return value


def gpu_seconds(target: float, declared: Declared) -> Callable[[float, Pool], float]:
    """What our external scaler answers: GPU-seconds waiting and running, and what the deadlines need."""

    def value(now: float, pool: Pool) -> float:
        return signal_of(now, pool, declared).value(target)

    return value


def signal_of(now: float, pool: Pool, declared: Declared) -> Signal:
    running = [seconds for each in pool.consumers.values() for seconds in each.left(now)]
    ready = sum(each.ready for each in pool.staying())
    jobs = [job for job in pool.waiting.values() if job.deadline > now]
    replicas = replicas_in_time(jobs, running, Fleet.of(declared, ready), now)
    waiting = [job.seconds for job in pool.waiting.values()]
    return Signal({"all": sum(waiting)}, sum(running), [*running, *waiting], replicas=replicas)

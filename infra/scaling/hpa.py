"""The HorizontalPodAutoscaler's algorithm, for one metric with a target a pod. Pure in `now`, in seconds.

autoscaling/v2 as Kubernetes 1.36 runs it, pkg/controller/podautoscaler: replica_calculator.go
(GetExternalPerPodMetricReplicas) makes a recommendation of the metric; horizontal.go then holds it between the lowest
and highest ones of the stabilisation windows (stabilizeRecommendationWithBehaviors) and lets no more change in a period
than the policies allow (convertDesiredReplicasWithBehaviorRate). Values are cut to thousandths, as quantities travel.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from schemas.pools import Scaling

TOLERANCE = 0.1  # of the controller manager, --horizontal-pod-autoscaler-tolerance
SYNC_SECONDS = 15.0  # between two looks, --horizontal-pod-autoscaler-sync-period


@dataclass(frozen=True, slots=True)
class Policy:
    """So much may change in a period: `value` replicas, or per cent of those at its start."""

    kind: Literal["Pods", "Percent"]
    value: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one direction. Of several policies `select` takes the one that allows most, or least; Disabled: never."""

    window_seconds: int
    policies: tuple[Policy, ...]
    select: Literal["Max", "Min", "Disabled"] = "Max"
    tolerance: float = TOLERANCE


@dataclass(frozen=True, slots=True)
class Behaviour:
    up: Rules = Rules(0, (Policy("Percent", 100, 15), Policy("Pods", 4, 15)))
    down: Rules = Rules(300, (Policy("Percent", 100, 15),))

    @classmethod
    def of(cls, scaling: Scaling) -> "Behaviour":
        """As a pool declares it, and as it is rendered."""
        return cls(
            Rules(scaling.out_window_seconds, (Policy("Pods", scaling.out_replicas_per_minute, 60),)),
            Rules(scaling.in_window_seconds, (Policy("Pods", scaling.in_replicas_per_minute, 60),)),
        )


class Hpa:
    """One autoscaler, asked at every look in the order of time. Without a replica it does nothing: KEDA wakes it."""

    def __init__(self, behaviour: Behaviour, replicas_min: int, replicas_max: int) -> None:
        """`replicas_min` below 1 is 1, as KEDA creates it."""
        self._up, self._down = behaviour.up, behaviour.down
        self._min = max(1, replicas_min)
        self._max = max(self._min, replicas_max)
        self._window = max(behaviour.up.window_seconds, behaviour.down.window_seconds)
        self._recommended: deque[tuple[float, int]] = deque()
        self._known = False
        self._added: list[tuple[float, int]] = []
        self._removed: list[tuple[float, int]] = []

    def wish(self, now: float, value: float, target: float, have: int) -> int:
        """Replicas after a look at `now`. `value`: of the metric, for all of them; `target`: for each (AverageValue).
        `have`: as the deployment says."""
        total, each = _milli(value), _milli(target)
        near = have > 0 and self._near(total / (each * have))
        return self._after(now, have if near else math.ceil(total / each), have)

    def wish_mean(self, now: float, mean: float, target: float, pods: int, have: int) -> int:
        """The same for a metric that the pods have themselves: its `mean` over the `pods` that told it."""
        ratio = _milli(mean) / _milli(target)
        return self._after(now, have if self._near(ratio) else math.ceil(ratio * pods), have)

    def _near(self, ratio: float) -> bool:
        return 1.0 - self._down.tolerance <= ratio <= 1.0 + self._up.tolerance

    def _after(self, now: float, recommended: int, have: int) -> int:
        if not self._known:
            self._known = True
            self._recommended.append((now, have))
        if not have:
            return 0
        if self._min <= have <= self._max:
            wish = self._limited(now, self._stabilised(now, recommended, have), have)
        else:
            wish = self._max if have > self._max else self._min
        if wish != have:
            events, rules = (self._added, self._up) if wish > have else (self._removed, self._down)
            _remember(events, (now, abs(wish - have)), rules)
        return wish

    def _stabilised(self, now: float, recommended: int, have: int) -> int:
        """What there is, unless all that was recommended within the window of a direction is beyond it."""
        while self._recommended and self._recommended[0][0] < now - self._window:
            self._recommended.popleft()
        up = min(_since(self._recommended, now - self._up.window_seconds), default=recommended)
        down = max(_since(self._recommended, now - self._down.window_seconds), default=recommended)
        self._recommended.append((now, recommended))
        return min(max(have, min(recommended, up)), max(recommended, down))

    def _limited(self, now: float, wish: int, have: int) -> int:
        if wish > have:
            return min(wish, self._max, max(have, self._most(now, have)))
        if wish < have:
            return max(wish, self._min, min(have, self._least(now, have)))
        return wish

    def _most(self, now: float, have: int) -> int:
        if self._up.select == "Disabled":
            return have
        allowed = [
            began + policy.value if policy.kind == "Pods" else math.ceil(began * (1 + policy.value / 100))
            for policy in self._up.policies
            for began in [self._began(now, policy, have)]
        ]
        return min(allowed) if self._up.select == "Min" else max(allowed)

    def _least(self, now: float, have: int) -> int:
        if self._down.select == "Disabled":
            return have
        allowed = [
            began - policy.value if policy.kind == "Pods" else int(began * (1 - policy.value / 100))
            for policy in self._down.policies
            for began in [self._began(now, policy, have)]
        ]
        return max(allowed) if self._down.select == "Min" else min(allowed)

    def _began(self, now: float, policy: Policy, have: int) -> int:
        """Replicas at the start of the policy's period, of what this autoscaler changed."""
        since = now - policy.period_seconds
        return have - sum(_since(self._added, since)) + sum(_since(self._removed, since))


def _remember(events: list[tuple[float, int]], event: tuple[float, int], rules: Rules) -> None:
    """In place of the last that its own policies look back to no more, as storeScaleEvent does: earlier ones stay, and
    count where policies of the other direction look back further."""
    cutoff = event[0] - max((policy.period_seconds for policy in rules.policies), default=0)
    outdated = [place for place, (at, _) in enumerate(events) if at < cutoff]
    if outdated:
        events[outdated[-1]] = event
    else:
        events.append(event)


def _since(events: Iterable[tuple[float, int]], after: float) -> Iterable[int]:
    return (each for at, each in events if at > after)


def _milli(value: float) -> int:
    """As a quantity: in thousandths. What is no number, or below 0, is 0, as KEDA makes it."""
    return int(f"{value:.3f}".replace(".", "")) if 0 <= value < math.inf else 0

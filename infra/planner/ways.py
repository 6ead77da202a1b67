"""Ways to scale a pool, and the settings of each that a plan tries."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from infra.planner.oracle import HEADROOMS, Oracle
from infra.planner.pool import Scaler
from infra.planner.request import Request
from infra.planner.scalers import Fixed, Keda, Rules, Utilisation, gpu_seconds, lag
from infra.scaling.hpa import Behaviour
from infra.scaling.threshold import lag_threshold
from schemas.pools import Pool

Way = Literal["fixed", "utilisation", "lag", "gpu_seconds", "oracle"]
NAMES: dict[Way, str] = {
    "fixed": "fixed size",
    "utilisation": "HPA, utilisation",
    "lag": "KEDA, lag",
    "gpu_seconds": "KEDA, GPU-seconds",
    "oracle": "oracle",
}
UTILISATION = 0.7
_TIMES = (0.5, 1, 2, 4)  # of what the objective asks for: thresholds that are tried
_TARGET_TIMES = (1, 4, 16)  # of the objective: at the highest little but deadlines counts


@dataclass(frozen=True, slots=True)
class Setting:
    """`amount`: replicas, a share, a threshold, GPU-seconds, or headroom, as the way has it; `window`: seconds of
    scaling in. `like`: of an oracle that does as another way does, with that one's setting."""

    way: Way
    amount: float = 0.0
    window: int = 0
    like: Way | None = None

    def __str__(self) -> str:
        match self.like or self.way:
            case "fixed":
                return f"{self.amount:.0f} replica{'s' * (self.amount != 1)}"
            case "utilisation":
                return f"{self.amount:.0%} busy"
            case "lag":
                return f"threshold {self.amount:.0f}, window {self.window} s"
            case "gpu_seconds":
                return f"target {self.amount:g} s, window {self.window} s"
            case "oracle":
                return f"headroom {self.amount:g}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a replay is of: the requests, as an oracle knows them, and when it ends at the latest."""

    requests: Sequence[Request]
    until: float


def scaler_of(way: Way, amount: float, rules: Rules, pool: Pool, asked: Asked) -> Scaler:
    """`amount`: as a Setting has it."""
    match way:
        case "fixed":
            return Fixed(int(amount))
        case "utilisation":
            return Utilisation(rules, amount)
        case "lag":
            return Keda(rules, lag(int(amount)), amount, 0)
        case "gpu_seconds":
            return Keda(rules, gpu_seconds(amount, pool), amount, 0)
        case "oracle":
            return Oracle(asked.requests, asked.until, pool, amount)


def rules_of(pool: Pool, window: int) -> Rules:
    """As the pool declares them, with another window of scaling in."""
    scaling = pool.scaling.model_copy(update={"in_window_seconds": window})
    return Rules(
        Behaviour.of(scaling), pool.replicas_min, pool.replicas_max, scaling.polling_seconds, scaling.cooldown_seconds
    )


def settings(pool: Pool, item_seconds: float, present_seconds: float) -> Iterable[Setting]:
    """Those of every way but of a fixed size, for which is searched. What is declared comes first, and then of each way
    the one with most replicas: it stands for a way of which nothing does.
    `item_seconds`, `present_seconds`: of one job of the trace, and as the present threshold is computed."""
    scaling = pool.scaling
    threshold, target = lag_threshold(scaling.wait_seconds, item_seconds), scaling.wait_seconds
    declared = Setting("lag", lag_threshold(scaling.wait_seconds, present_seconds), scaling.in_window_seconds)
    if scaling.signal == "gpu_seconds":
        declared = Setting("gpu_seconds", target, scaling.in_window_seconds)
    quick = min(scaling.in_window_seconds, math.ceil(pool.load_seconds))
    lags = [Setting("lag", max(1, round(each * threshold))) for each in _TIMES]
    signals = [Setting("gpu_seconds", each * target) for each in _TARGET_TIMES]
    tried = [replace(each, window=w) for each in (*lags, *signals) for w in (scaling.in_window_seconds, quick)]
    rest = [Setting("utilisation", UTILISATION, scaling.in_window_seconds)]
    rest += [Setting("oracle", headroom) for headroom in reversed(HEADROOMS)]
    yield from dict.fromkeys([declared, *tried, *rest])

"""Ways to scale a pool, replayed beside each other, and the settings to take."""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Literal

from infra.planner.oracle import HEADROOMS, Oracle
from infra.planner.pool import Scaler
from infra.planner.replay import House, Outcome, replay
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
    scaling in."""

    way: Way
    amount: float = 0.0
    window: int = 0

    def __str__(self) -> str:
        match self.way:
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
class Task:
    """What is replayed: the trace, the pool as declared, and what else is known of its consumers."""

    requests: Sequence[Request]
    pool: Pool
    house: House
    until: float

    def run(self, setting: Setting) -> Outcome:
        scaling, pool = self.pool.scaling.model_copy(update={"in_window_seconds": setting.window}), self.pool
        rules = Rules(
            Behaviour.of(scaling), pool.replicas_min, pool.replicas_max, scaling.polling_seconds,
            scaling.cooldown_seconds,
        )  # fmt: skip
        scaler: Scaler
        match setting.way:
            case "fixed":
                scaler = Fixed(int(setting.amount))
            case "utilisation":
                scaler = Utilisation(rules, setting.amount)
            case "lag":
                scaler = Keda(rules, lag(int(setting.amount)), setting.amount, 0)
            case "gpu_seconds":
                scaler = Keda(rules, gpu_seconds(setting.amount, pool), setting.amount, 0)
            case "oracle":
                scaler = Oracle(self.requests, self.until, pool, setting.amount)
        return replay(self.requests, self.house, scaler, self.until, closes=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """`best`: of each way the cheapest setting that reaches the goal, else the one that comes nearest; `declared`: what
    the pool has now."""

    work_hours: float
    best: dict[Way, tuple[Setting, Outcome]]
    declared: tuple[Setting, Outcome]

    def advice(self, goal: float) -> tuple[Setting, Outcome] | None:
        """What to declare; None: nothing that can be declared reaches the goal."""
        enough = [self.best[way] for way in ("lag", "gpu_seconds") if self.best[way][1].share_in_time >= goal]
        return min(enough, key=lambda pair: pair[1].paid_seconds, default=None)


def compare(
    task: Task,
    item_seconds: float,
    goal: float,
    progress: Callable[[float], None] = lambda share: None,
    *,
    present_seconds: float | None = None,
) -> Plan:
    """Blocks for as long as some twenty replays take, on all processors. `progress` is told the share of the replays
    that is done, rising from 0 to 1. `item_seconds`: of one job of the trace; `present_seconds`: what the pool's
    present threshold is computed from, the same if not given."""
    settings = list(_settings(task.pool, item_seconds, present_seconds or item_seconds))
    searched = task.pool.replicas_max.bit_length()  # replays that the search of a fixed size takes at most
    outcomes = {}
    progress(0.0)
    with ProcessPoolExecutor() as workers:
        running = {workers.submit(task.run, setting): setting for setting in settings}
        for done in as_completed(running):
            outcomes[running[done]] = done.result()
            progress(len(outcomes) / (len(settings) + searched))
    fixed = _smallest(task, goal)
    progress(1.0)
    outcomes[fixed[0]] = fixed[1]
    ways: tuple[Way, ...] = ("fixed", "utilisation", "lag", "gpu_seconds", "oracle")
    best = {way: _best({each: outcomes[each] for each in outcomes if each.way == way}, goal) for way in ways}
    work = sum(request.seconds for request in task.requests) / 3600
    return Plan(work, best, (settings[0], outcomes[settings[0]]))


def _settings(pool: Pool, item_seconds: float, present_seconds: float) -> Iterable[Setting]:
    """What is declared comes first."""
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
    rest += [Setting("oracle", headroom) for headroom in HEADROOMS]
    yield from dict.fromkeys([declared, *tried, *rest])


def _smallest(task: Task, goal: float) -> tuple[Setting, Outcome]:
    """The least number of replicas, all the time, that reaches the goal; else as many as there may be."""
    low, high = 1, task.pool.replicas_max
    found = Setting("fixed", high), task.run(Setting("fixed", high))
    while low < high and found[1].share_in_time >= goal:
        middle = (low + high) // 2
        setting = Setting("fixed", middle)
        outcome = task.run(setting)
        if outcome.share_in_time >= goal:
            high, found = middle, (setting, outcome)
        else:
            low = middle + 1
    return found


def _best(outcomes: dict[Setting, Outcome], goal: float) -> tuple[Setting, Outcome]:
    enough = [pair for pair in outcomes.items() if pair[1].share_in_time >= goal]
    if enough:
        return min(enough, key=lambda pair: pair[1].paid_seconds)
    return max(outcomes.items(), key=lambda pair: pair[1].share_in_time)

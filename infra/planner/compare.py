"""Ways to scale a pool, replayed beside each other, and the settings to take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from infra.planner.race import Aim, Task, race
from infra.planner.replay import Outcome
from infra.planner.ways import NAMES, Setting, Way, settings

__all__ = ["NAMES", "Plan", "Setting", "Task", "Way", "compare"]


@dataclass(frozen=True, slots=True)
class Plan:
    """`best`: of each way the cheapest setting that reaches the goal, else the one of most replicas; so that the
    oracle is behind none of the others, it is one of them where that is better. `declared`: what the pool has now."""

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
    tried = list(settings(task.pool, item_seconds, present_seconds or item_seconds))
    aim = Aim.of(task.requests, goal)
    outcomes = race(task, tried, aim, progress)
    best: dict[Way, tuple[Setting, Outcome]] = {
        way: _best({each: outcomes[each] for each in outcomes if each.way == way}, aim)
        for way in NAMES
        if way != "oracle"
    }
    setting, outcome = _best(outcomes, aim)
    if setting.way != "oracle":  # who knows what will come can do as this does
        setting = replace(setting, way="oracle", like=setting.way)
    best["oracle"] = setting, outcome
    progress(1.0)
    work = sum(request.seconds for request in task.requests) / 3600
    return Plan(work, best, (tried[0], outcomes[tried[0]]))


def _best(outcomes: Mapping[Setting, Outcome], aim: Aim) -> tuple[Setting, Outcome]:
    return min(outcomes.items(), key=lambda pair: aim.rank(pair[1]))

"""A plan in words: what each way costs and misses, what the pool has now, and the lines to declare instead."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table

from infra.planner.compare import NAMES, Plan, Setting, Task
from infra.planner.replay import Outcome
from infra.scaling.threshold import lag_threshold
from schemas.counted import counted
from schemas.pools import Pool

_MONTH_HOURS = 30 * 24
_DAY_HOURS = 20.0  # a month is not told of less: its nights must be in it


@dataclass(frozen=True, slots=True)
class Case:
    """What was planned. `now`: the pool `name` as its file declares it; the task has what was changed for the plan."""

    name: str
    now: Pool
    task: Task
    item_seconds: float
    goal: float

    @property
    def hours(self) -> float:
        return self.task.requests[-1].arrival / 3600

    def usd(self, gpu_hours: float) -> float:
        return gpu_hours * self.task.pool.price_usd_per_hour

    def cost(self, gpu_hours: float) -> str:
        """In money, or in hours where they cost none."""
        return f"${self.usd(gpu_hours):,.2f}" if self.task.pool.price_usd_per_hour else f"{gpu_hours:,.1f} GPU-hours"


def named(setting: Setting) -> str:
    """The way; of an oracle that does as another way does, that one too."""
    return NAMES[setting.way] + (f": {NAMES[setting.like]}" if setting.like else "")


def missed(outcome: Outcome) -> str:
    return f"{outcome.missed:,} ({1 - outcome.share_in_time:.2%})"


def show(plan: Plan, case: Case, console: Console) -> None:
    pool, requests = case.task.pool, case.task.requests
    console.print(
        f"{counted(len(requests), 'request')}, {plan.work_hours:,.1f} GPU-hours of work, in {case.hours:.1f} hours."
    )
    console.print(
        f"Pool {case.name}: ${pool.price_usd_per_hour:,.2f} for an hour of a replica, a cold start of "
        f"{pool.load_seconds:g} s, {pool.replicas_min} to {pool.replicas_max} replicas. Goal: {case.goal:.4g} of "
        "deadlines."
    )
    console.print(_table(plan, case))
    for line in _advice(plan, case):
        console.print(line, markup=False)


def _table(plan: Plan, case: Case) -> Table:
    numbers = ("GPU-hours", "cost", "missed", "busy", "replicas,\nat most")
    table = Table(Column("way"), *(Column(each, justify="right") for each in numbers), box=box.SIMPLE_HEAD)
    rows = [("now: ", *plan.declared), *(("", *pair) for pair in plan.best.values())]
    for prefix, setting, outcome in rows:
        table.add_row(
            f"{prefix}{named(setting)}\n{setting}",
            f"{outcome.gpu_hours:,.1f}",
            f"${case.usd(outcome.gpu_hours):,.2f}" if case.task.pool.price_usd_per_hour else "none",
            f"{outcome.missed:,}\n{1 - outcome.share_in_time:.2%}",
            f"{outcome.busy:.0%}",
            f"{outcome.replicas_most:,}",
            style=None if outcome.share_in_time >= case.goal else "yellow",
        )
    return table


def _advice(plan: Plan, case: Case) -> Iterator[str]:
    advice = plan.advice(case.goal)
    if advice is None:
        yield from _nothing(plan, case)
        return
    setting, outcome = advice
    present, now = plan.declared
    if setting == present:
        yield "Keep the present setting: of what was tried and reaches the goal, none that can be declared costs less."
    else:
        yield f"Take {NAMES[setting.way]}, {setting}: {case.cost(outcome.gpu_hours)}, {missed(outcome)} missed."
        yield f"Now {NAMES[present.way]}, {present}: {case.cost(now.gpu_hours)}, {missed(now)} missed."
        yield _difference(case, outcome, now)
    fixed, steady = plan.best["fixed"]
    if steady.share_in_time >= case.goal and steady.paid_seconds < outcome.paid_seconds:
        yield (
            f"{fixed} all the time would do for {case.cost(steady.gpu_hours)}, which is less: for a load that stays as "
            f"it is, set replicas_min and replicas_max to {fixed.amount:.0f}."
        )
    yield f"\nFor pool {case.name} in pools.yaml:\n"
    yield from _lines(declaration(case, setting, outcome), case.now.model_dump())
    yield f"\n{_target(setting)} follows from it; `kiln infra render` writes that for KEDA."


def _difference(case: Case, outcome: Outcome, now: Outcome) -> str:
    saved = now.gpu_hours - outcome.gpu_hours
    what, more = ("saves", "") if saved >= 0 else ("costs", " more")
    if now.gpu_hours:
        more = f" ({abs(saved) / now.gpu_hours:.0%}){more}"
    if now.share_in_time < case.goal:
        more += ", and reaches the goal, which the present setting misses,"
    month = ""
    if case.hours >= _DAY_HOURS:
        month = f"; that is {case.cost(abs(saved) / case.hours * _MONTH_HOURS)} in 30 days of the same"
    return f"That {what} {case.cost(abs(saved))}{more} in these {case.hours:.1f} hours{month}."


def _nothing(plan: Plan, case: Case) -> Iterator[str]:
    """Nothing that can be declared reaches the goal: what comes nearest, and what may help."""
    setting, outcome = max((plan.best[way] for way in ("lag", "gpu_seconds")), key=lambda pair: pair[1].share_in_time)
    pool = case.task.pool
    yield (
        f"Nothing that can be declared reaches the goal. {NAMES[setting.way]}, {setting} comes nearest: "
        f"{case.cost(outcome.gpu_hours)}, {missed(outcome)} missed."
    )
    if outcome.replicas_most >= pool.replicas_max:
        yield f"Every replica that there may be ({pool.replicas_max}) was in use: try --max {2 * pool.replicas_max}."
    yield f"Or: a cold start of less than {pool.load_seconds:g} s (--load-seconds), longer deadlines, a lower --goal."


def declaration(case: Case, setting: Setting, outcome: Outcome) -> dict[str, Any]:
    """The fields of the pool that lead to the setting, in the order of their model."""
    pool, most = case.task.pool, max(1, outcome.replicas_most, case.task.pool.replicas_min)
    scaling = pool.scaling.model_dump(exclude_unset=True) | {
        "signal": setting.way,
        "in_window_seconds": setting.window,
        "out_window_seconds": pool.scaling.out_window_seconds,
        **_objective(setting, case.item_seconds),
    }
    fields: dict[str, Any] = {"replicas_min": pool.replicas_min, "replicas_max": most}
    if (partitions := max(case.now.partitions, 2 * most)) != case.now.partitions:
        fields["partitions"] = partitions
    if pool.load_seconds != case.now.load_seconds:
        fields["load_seconds"] = pool.load_seconds
    order = list(type(pool.scaling).model_fields)
    return fields | {"scaling": dict(sorted(scaling.items(), key=lambda pair: order.index(pair[0])))}


def _objective(setting: Setting, item_seconds: float) -> dict[str, float]:
    """What the setting's threshold or target is computed from."""
    if setting.way == "gpu_seconds":
        return {"wait_seconds": setting.amount}
    item = max(0.001, round(item_seconds, 3))
    wait = float(math.ceil(setting.amount * item))
    if lag_threshold(wait, item) != setting.amount:  # jobs of less than a second
        wait = round(setting.amount * item, 3)
    return {"wait_seconds": wait, "item_seconds": item}


def _lines(fields: Mapping[str, Any], now: Mapping[str, Any], indent: str = "    ") -> Iterator[str]:
    """As YAML, with what the file has now where that is another."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _lines(value, now[name], indent + "  ")
            continue
        was = now[name]
        comment = "" if was == value else f"  # now {'not set' if was is None else _scalar(was)}"
        if name == "wait_seconds" and comment:
            comment += "; what the pool's alerts hold it to, too"
        yield f"{indent}{name}: {_scalar(value)}{comment}"


def _scalar(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _target(setting: Setting) -> str:
    return f"lagThreshold {setting.amount:.0f}" if setting.way == "lag" else f"targetGpuSeconds {setting.amount:g}"


def as_object(plan: Plan, case: Case) -> dict[str, Any]:
    """Money in USD."""
    pool, advice = case.task.pool, plan.advice(case.goal)
    return {
        "pool": case.name,
        "requests": len(case.task.requests),
        "hours": round(case.hours, 4),
        "work_gpu_hours": round(plan.work_hours, 4),
        "price_usd_per_hour": pool.price_usd_per_hour,
        "load_seconds": pool.load_seconds,
        "goal": case.goal,
        "now": _outcome(case, *plan.declared),
        "ways": [_outcome(case, *pair) for pair in plan.best.values()],
        "advice": advice and _outcome(case, *advice) | {"declare": declaration(case, *advice)},
    }


def _outcome(case: Case, setting: Setting, outcome: Outcome) -> dict[str, Any]:
    return {
        "way": setting.way,
        "like": setting.like,
        "setting": setting.amount,
        "in_window_seconds": setting.window,
        "gpu_hours": round(outcome.gpu_hours, 4),
        "usd": round(case.usd(outcome.gpu_hours), 4),
        "missed": outcome.missed,
        "in_time_ratio": round(outcome.share_in_time, 6),
        "busy_ratio": round(outcome.busy, 4),
        "replicas_most": outcome.replicas_most,
        "reaches_goal": outcome.share_in_time >= case.goal,
    }

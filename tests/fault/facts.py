"""What a run amounted to, in numbers: the table for a person and the summary for a machine."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from tests.fault.account import settle_account
from tests.fault.checks.reading import body_of, end_of, readable
from tests.fault.children import Child
from tests.fault.history import Flaw, History
from tests.fault.storm import Deeds


def summarise(
    seed: int, history: History, deeds: Deeds, children: Sequence[Child], flaws: Sequence[Flaw], seconds: float
) -> dict[str, Any]:
    """Counts of one round. `flaws` gives the number of each kind and the first example of it."""
    account = settle_account(history)
    events = [body for _, body in readable(history.results)]
    jobs = Counter(record.key for record in history.work)
    ran = [event for event in events if event.get("status") == "succeeded"]
    first: dict[str, str] = {}
    for flaw in flaws:
        first.setdefault(flaw.kind, flaw.detail)
    return {
        "seed": seed,
        "ok": not flaws,
        "flaws": dict(Counter(flaw.kind for flaw in flaws)),
        "first_of_each": first,
        "records": len(history.sent),
        "requests": len(account.first),
        "ended": dict(sorted(Counter(end_of(event) for event in events).items())),
        "dead_letters": dict(Counter(due.reason for due in account.dead.values())),
        "repeats": account.repeats,
        "sent_home": len(account.copies),
        "faults": dict(sorted(deeds.done.items())),
        "lag_after_reset": deeds.lag_after_reset,
        "lag_at_the_end": dict(history.lags),
        "starts": {child.name: child.starts for child in children},
        "deaths_of_their_own": {child.name: child.deaths_of_its_own for child in children if child.deaths_of_its_own},
        "work_records": len(history.work),
        "work_duplicates_absorbed": sum(count - 1 for count in jobs.values()),
        "second_attempts": sum(event.get("attempt", 1) > 1 for event in ran),
        "mean_batch_size": round(sum(event.get("batch_size", 0) for event in ran) / len(ran), 2) if ran else None,
        "gpu_seconds": round(sum(event.get("gpu_seconds", 0.0) for event in ran), 2),
        # A job's former runs are not booked anywhere; each was at most as long as its last one.
        "gpu_seconds_wasted_at_most": round(
            sum(event.get("gpu_seconds", 0.0) * (event.get("attempt", 1) - 1) for event in ran), 2
        ),
        "artifacts_verified": sum(len(event.get("artifacts", [])) for event in ran),
        "fed_seconds": round(deeds.fed_seconds, 1),
        "drained_seconds": round(deeds.drained_seconds, 1),
        "seconds": round(seconds, 1),
    }


def table_of(summary: Mapping[str, Any]) -> Table:
    """The summary for a person; the flaws stand below the table, not in it."""
    table = Table(title=f"fault-smoke, seed {summary['seed']}", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in summary.items():
        if key in {"seed", "first_of_each"}:
            continue
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        table.add_row(key.replace("_", " "), text or "none")
    return table


def write_history(history: History, folder: Path) -> None:
    """Every record as a JSON line a topic, for the person who looks for the reason."""
    topics = ("requests", "decisions", "work", "results", "dead_letters")
    for name in topics:
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for record in getattr(history, name):
                try:
                    value: Any = body_of(record)
                except Exception:
                    value = repr(record.value)
                line = {"at": record.at, "ms": record.timestamp_ms, "key": repr(record.key), "value": value}
                file.write(json.dumps(line, ensure_ascii=True) + "\n")

"""What the demo has to show for itself, from the topics and the store alone."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from infra.demo.load import Sent
from schemas.result import GenerationResult, Rejected, Succeeded
from streams.artifacts import fetch
from streams.cost import Costs


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The p50 and p95 of `values` in seconds, by nearest rank; 0 where there are none."""
    ordered = sorted(values) or [0.0]
    rank = {"p50": 0.50, "p95": 0.95}
    return {name: round(ordered[min(len(ordered) - 1, int(len(ordered) * at))], 3) for name, at in rank.items()}


def verified(results: Sequence[GenerationResult]) -> int:
    """How many artifacts exist with the SHA-256 that their result names. Raises CommandError on the first that does
    not."""
    return sum(1 for result in results if isinstance(result, Succeeded) for each in result.artifacts if fetch(each))


def summarise(
    sent: Sequence[Sent], results: Sequence[GenerationResult], dead_letters: Counter[str], seconds: float
) -> dict[str, Any]:
    """The figures of .kiln/demo/summary.json.

    `lost` counts names without a terminal event, `duplicates` the events beyond the first of a name; `batch_fill` is
    the part of the padded batches that were pictures, as each picture saw it.
    """
    names = {(each.tenant, each.request_id) for each in sent if each.request_id}
    ended = Counter((result.tenant, result.request_id) for result in results)
    succeeded = [result for result in results if isinstance(result, Succeeded)]
    runs = [result.timings for result in succeeded]
    return {
        "published": len(sent),
        "names": len(names),
        "succeeded": len(succeeded),
        "rejected": dict(sorted(Counter(each.code for each in results if isinstance(each, Rejected)).items())),
        "dead_lettered": dict(sorted(dead_letters.items())),
        "failed": sum(result.status == "failed" for result in results),
        "expired": sum(result.status == "expired" for result in results),
        "lost": len(names - ended.keys()),
        "duplicates": sum(count - 1 for count in ended.values()),
        "pictures": sum(len(result.artifacts) for result in succeeded),
        "videos": sum(each.frames > 1 for result in succeeded for each in result.artifacts),
        "artifacts_verified": verified(results),
        "mean_batch_size": round(sum(each.batch_size for each in succeeded) / max(1, len(succeeded)), 2),
        "batch_fill": round(
            sum(each.batch_size for each in succeeded) / max(1, sum(each.bucket for each in succeeded)), 2
        ),
        "wait_seconds": percentiles([run.get("wait", 0.0) for run in runs]),
        "run_seconds": percentiles([sum(run.values()) - run.get("wait", 0.0) for run in runs]),
        "gpu_seconds": round(sum(result.gpu_seconds for result in succeeded), 2),
        "seconds": round(seconds, 1),
    }


def bill(costs: Costs, pictures: int, replicas_max: int) -> dict[str, Any]:
    """Money of the whole demo, by `kiln cost`'s figures: `cost_usd` is charged to requests, `paid_usd` is what the
    consumers cost, `idle_cost_usd` and `loading_cost_usd` of it for nothing. `keda_replicas_max`: what KEDA would have
    run at the most."""
    charged = sum((each.usd for each in costs.tenants.values()), Decimal(0))
    held = costs.held().values()
    return {
        "cost_usd": float(charged),
        "cost_per_picture_usd": round(float(charged) / max(1, pictures), 6),
        "paid_usd": float(sum((each.total_usd for each in held), Decimal(0))),
        "idle_cost_usd": float(sum((each.usd["idle"] for each in held), Decimal(0))),
        "loading_cost_usd": float(sum((each.usd["loading"] for each in held), Decimal(0))),
        "keda_replicas_max": replicas_max,
    }

"""The demo's table, drawn anew twice a second: what waits, what runs, what it costs, and what KEDA would run for it."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.parser import text_string_to_metric_families
from rich import box
from rich.table import Column, Table

from infra.demo.replicas import Replicas
from schemas.cost import total_usd
from schemas.request import LANES
from schemas.result import GenerationResult, Rejected, Succeeded
from schemas.topics import Catalogue
from streams.kafka.lag import Offsets

_IN_FLIGHT = {"kiln_gpu_in_flight_jobs", "kiln_gpu_settling_jobs"}
GroupOffsets = Mapping[str, Mapping[str, Sequence[Offsets]]]


def lag_of_group(offsets: GroupOffsets, group: str) -> int:
    return sum(each.lag for of_topic in offsets[group].values() for each in of_topic)


def requests_table(
    catalogue: Catalogue,
    offsets: GroupOffsets,
    results: Sequence[GenerationResult],
    pages: Iterable[str | None],
    replicas: Mapping[str, Replicas],
    now: float,
) -> Table:
    """`pages`: the metrics of the consumers, which are all of one pool; `now`, in seconds: KEDA and the HPA look on
    times of their own."""
    in_flight = sum(
        int(sample.value)
        for page in pages
        if page
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name in _IN_FLIGHT
    )
    rejected = sum(isinstance(result, Rejected) for result in results)
    heads = ("waiting", "running", "done", "rejected", "lag", "GPU-s", "USD", "KEDA\nwould\nrun")
    numbers = (Column(head, justify="right", no_wrap=True) for head in heads)
    table = Table(
        Column("pool", overflow="fold"), *numbers, title="requests", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    prices = {pool.price_usd_per_hour for pool in catalogue.pools.values()}
    table.caption = f"USD: at {' or '.join(f'{price:g}' for price in sorted(prices))} an hour of a GPU"
    waiting = lag_of_group(offsets, catalogue.admission_group)
    table.add_row("admission", str(waiting), "", "", str(rejected), "")
    for name, pool in catalogue.pools.items():
        lanes = offsets[catalogue.gpu_group(name)]
        lag = lag_of_group(offsets, catalogue.gpu_group(name))
        charged = [result for result in results if getattr(result, "pool", None) == name]
        seconds = sum(getattr(result, "gpu_seconds", 0.0) for result in charged)
        usd = total_usd(getattr(result, "cost_usd", None) or 0.0 for result in charged)
        wish = replicas[name].look(now, [lanes[catalogue.work(name, lane)] for lane in LANES])
        table.add_row(
            name, str(max(0, lag - in_flight)), str(in_flight),
            str(sum(isinstance(result, Succeeded) for result in charged)), "", str(lag),
            f"{seconds:.2f}", str(usd), f"{wish} of {pool.replicas_max}",
        )  # fmt: skip
    return table

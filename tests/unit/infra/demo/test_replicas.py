"""What KEDA would run for a demo, and what its table says of money."""

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from infra.demo.pools import demo_pools, write_pools
from infra.demo.replicas import Replicas
from infra.demo.table import lag_of_group, requests_table
from schemas.catalogue import ConfigCatalogue
from schemas.pools import Pool, Pools, Scaling, load_pools
from schemas.request import LANES
from schemas.result import ConfigUsed, Failed, GenerationResult, Rejected
from streams.kafka.lag import Offsets
from tests.kafka import POOL, small_catalogue

SCALING = Scaling(wait_seconds=10, item_seconds=1, polling_seconds=5, out_replicas_per_minute=2)
DECLARED = Pool(
    gpu_product="cpu", vram_bytes=1, price_usd_per_hour=0, replicas_max=4, partitions=8, scaling=SCALING
)  # fmt: skip


def waiting(records: int) -> list[list[Offsets]]:
    """Half of it in a lane from which nothing was ever taken."""
    each = records // 8
    return [[Offsets(5, 0, 5 + each)] * 4, [Offsets(None, 3, 3 + each)] * 4, []]


def test_keda_wakes_and_the_hpa_goes_on_each_at_its_own_times() -> None:
    replicas = Replicas(DECLARED, "a", ConfigCatalogue({}))
    looks = [(0.0, 0), (1.0, 64), (5.0, 64), (7.0, 64), (7.5, 64), (16.0, 0), (22.5, 0), (30.0, 0)]
    seen = [replicas.look(now, waiting(records)) for now, records in looks]
    # At 5 s KEDA's poll, at 7.5 s the HPA's look: two a minute more, and none fewer for five minutes.
    assert seen == [0, 0, 1, 1, 3, 3, 3, 3]
    assert replicas.most == 3


def test_the_demo_s_pools_have_a_price_and_are_read_as_they_were_written(tmp_path: Path) -> None:
    dear = DECLARED.model_copy(update={"price_usd_per_hour": 4.0})
    made = demo_pools(Pools(pools={"a": DECLARED, "b": dear}), 2.0)
    assert [pool.price_usd_per_hour for pool in made.pools.values()] == [2.0, 4.0]
    assert made.pools["a"].scaling == SCALING.model_copy(update={"wait_seconds": 5.0})
    write_pools(made, tmp_path / "pools.yaml")
    assert load_pools(tmp_path / "pools.yaml") == made


def test_the_table_says_of_each_pool_what_waits_runs_and_costs() -> None:
    catalogue = small_catalogue("t")
    offsets = {
        catalogue.admission_group: {catalogue.requests: [Offsets(1, 0, 4)]},
        catalogue.gpu_group(POOL): {
            catalogue.work(POOL, lane): each for lane, each in zip(LANES, waiting(40), strict=True)
        },
    }
    names = {"tenant": "red", "job_id": "j", "finished_at": datetime.now(UTC), "message": "m"}
    config = ConfigUsed(name="shapes", version=1, hash="0" * 64, model_digest="d")
    ran = {"code": "blank_output", "gpu_seconds": 1.5, "cost_usd": 0.000417, "pool": POOL, "config": config}
    results: list[GenerationResult] = [
        Failed.model_validate(names | ran | {"request_id": "a"}),
        Failed.model_validate(names | ran | {"request_id": "b"}),
        Rejected.model_validate(names | {"request_id": "c", "code": "paused"}),
    ]
    page = 'kiln_gpu_in_flight_jobs{pool="a"} 3.0\nkiln_gpu_settling_jobs{pool="a"} 1.0\n'
    replicas = {POOL: Replicas(DECLARED, POOL, ConfigCatalogue({}))}
    assert lag_of_group(offsets, catalogue.gpu_group(POOL)) == 40
    table = requests_table(catalogue, offsets, results, [page, None], replicas, 0.0)
    columns = {str(column.header): list(column.cells) for column in table.columns}
    assert (columns["waiting"], columns["running"]) == (["3", "36"], ["", "4"])
    assert (columns["GPU-s"][1], columns["USD"][1]) == ("3.00", "0.000834")
    assert columns["KEDA\nwould\nrun"][1] == "1 of 2"
    assert table.caption == "USD: at 1 an hour of a GPU"
    table.add_row("default", "60", "10", "58", "", "70", "123.45", "0.012345", "4 of 4")
    with (console := Console(width=80)).capture() as drawn:
        console.print(table)
    assert "default" in (shown := drawn.get())
    assert "0.012345" in shown

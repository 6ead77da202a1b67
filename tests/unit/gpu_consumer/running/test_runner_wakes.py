"""A runner that nobody wakes but time itself."""

from datetime import timedelta
from pathlib import Path

from tests.unit.gpu_consumer.bench import Bench
from tests.unit.gpu_consumer.work import EPOCH, RunningClock, config, work_item


async def test_a_batch_that_has_waited_for_company_goes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, clock=RunningClock(), batch_wait_seconds=0.2)
    await bench.start()
    bench.take(work_item("patient", config=config(batching="whole")))
    await bench.until(bench.results)
    await bench.end()


async def test_a_deadline_reaches_what_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, clock=RunningClock(), mark_seconds_min=600)  # a mark's renewal wakes it too
    await bench.start()
    bench.engine.gate.clear()
    bench.take(work_item("slow", deadline=EPOCH + timedelta(seconds=0.5)))
    await bench.until(bench.results)
    assert bench.results()["slow"].status == "expired"
    await bench.end()


async def test_a_mark_is_renewed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, clock=RunningClock(), mark_seconds_min=0.3, mark_factor=1)
    await bench.start()
    bench.engine.gate.clear()
    bench.take(work_item("long"))
    await bench.until(lambda: bench.index.ledger("standard").marks)
    first = bench.index.ledger("standard").marks[0]
    await bench.until(lambda: bench.index.ledger("standard").marks[0] != first)
    await bench.end()

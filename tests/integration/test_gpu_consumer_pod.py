"""How much a consumer says that its end would cost: what it runs, as it runs."""

from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.scripted import ScriptedEngine


async def test_what_runs_is_what_a_drain_would_wait_for(pool: GpuPool) -> None:
    engine = ScriptedEngine()
    engine.gate.clear()
    await pool.produce([work_item(f"job{n}") for n in range(4)], partition=0)
    async with pool.consumer(engine) as running:
        await eventually(lambda: running.consumer.left_seconds > 0, "a batch runs")
        engine.gate.set()
        await pool.wait_for_results(4)
        await eventually(lambda: running.consumer.left_seconds == 0, "nothing runs")

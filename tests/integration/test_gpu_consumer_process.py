"""The GPU consumer as a process of its own: killed, signalled, asked for its health."""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
import yaml

from schemas.cost import total_usd
from schemas.topics import Catalogue
from streams.commands.cost import cost
from tests.integration.gpu_pool import PATIENCE_SECONDS, GpuPool, eventually, work_item
from tests.kafka import POOL
from tests.ports import free_port

_RUN = "from gpu_consumer.commands.run import app; app()"


@pytest.fixture
def environment(kafka_env: dict[str, str], prefix: str, catalogue: Catalogue, tmp_path: Path) -> dict[str, str]:
    pools = tmp_path / "pools.yaml"
    pools.write_text(yaml.safe_dump({"pools": {POOL: catalogue.pools[POOL].model_dump()}}))
    return kafka_env | {
        "KILN_TOPICS_PREFIX": prefix,
        "KILN_TOPICS_REQUESTS_PARTITIONS": str(catalogue.requests_partitions),
        "KILN_POOLS": str(pools),
        "KILN_STORE_URL": f"file://{tmp_path / 'store'}",
        "KILN_GPU_POOL": POOL,
        "KILN_GPU_ENGINE": "instant",
        "KILN_GPU_PRELOAD": "",
        "KILN_GPU_MARK_SECONDS_MIN": "1",
    }


@asynccontextmanager
async def consumer(environment: dict[str, str], port: int = 0) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _RUN, "run", "--health-port", str(port), "--verbose", env=environment,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def page(port: int, path: str) -> tuple[int, str]:
    """Status and text; 0 while nobody listens."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except (URLError, OSError):
        return 0, ""


async def test_kill_after_kill_loses_nothing_and_repeats_nothing(pool: GpuPool, environment: dict[str, str]) -> None:
    items = [work_item(f"job{n}", images=1 + n % 2) for n in range(240)]

    async def some(count: int) -> bool:
        return len(await pool.results()) >= count

    async with consumer(environment) as survivor:
        for kill in range(3):
            port = free_port()
            async with consumer(environment, port) as victim:
                await eventually(lambda at=port: page(at, "/readyz")[0] == 200, "a member with its leases open")  # type: ignore[misc]
                await pool.produce(items[80 * kill : 80 * (kill + 1)])
                await eventually(lambda at=80 * kill + 5: some(at), "some are done")  # type: ignore[misc]
                victim.send_signal(signal.SIGKILL)
                await victim.wait()
        found = await pool.wait_for_results(len(items))
        await pool.wait_until_done()
        assert survivor.returncode is None
    assert Counter(result.job_id for result in found) == Counter(item.job_id for item in items)
    for result in found:
        stored = pool.store.lookup(result.job_id)
        assert stored is not None
        assert stored.result == result


# case GPU-17
async def test_it_says_how_it_is_and_leaves_at_a_signal(
    pool: GpuPool, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    await pool.produce([work_item(f"job{n}") for n in range(4)])
    async with consumer(environment, port) as process:
        await pool.wait_for_results(4)
        await eventually(lambda: page(port, "/readyz")[0] == 200, "ready")
        assert page(port, "/livez") == (200, "ok\n")
        # A result can be read before its consumer knows that it is committed.
        settled = f'kiln_gpu_settled_total{{pool="{POOL}",status="succeeded"}} 4.0'
        await eventually(lambda: settled in page(port, "/metrics")[1], "all are counted")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() == 0

    # What it cost is told: each request by its result, and the consumer's time by its last words.
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yesterday = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=1)  # not: this month
    await asyncio.to_thread(cost, yesterday, None, as_json=True)
    told = json.loads(capsys.readouterr().out)
    found = await pool.results()
    assert {each["tenant"]: each["requests"] for each in told["tenants"]} == Counter(each.tenant for each in found)
    (of_pool,) = told["pools"]
    assert of_pool["usd"] == float(total_usd(each.cost_usd for each in found))
    assert of_pool["gpu_seconds"] == pytest.approx(sum(each.gpu_seconds for each in found), abs=0.001)
    assert (of_pool["pool"], of_pool["consumers"], of_pool["requests"]) == (POOL, 1, 4)
    price = pool.catalogue.pools[POOL].price_usd_per_hour
    held = of_pool["held_seconds"]
    assert held["loading"] > 0
    assert of_pool["total_usd"] == pytest.approx(sum(held.values()) * price / 3600, abs=1e-5)

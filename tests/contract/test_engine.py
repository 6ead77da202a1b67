"""What every engine promises: one suite over the engine process and the instant engine."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, EngineDied, Finished, Item
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig, ModelRef
from tests.tiny import models, tiny_config

__all__ = ["models"]

# One loop for the module: a started engine is dear, and is shared by all tests that leave it as it was.
pytestmark = pytest.mark.asyncio(loop_scope="module")

AnEngine = EngineProcess | InstantEngine
ITEMS = (
    Item("a", "a red circle on the left", "", 0),
    Item("b", "日本の城 🏯", "grey", 1),
    Item("c", "a cat", "a dog", 2**63),
    Item("d", "", "", 3),
)
BAD = Item("bad", "a seed beyond 64 bits", "", 2**64)
PATIENCE = 60  # seconds; a deadline, never a measurement


def digests(finished: Finished) -> dict[str, str]:
    return {picture.key: hashlib.sha256(picture.data).hexdigest() for picture in finished.pictures}


def ended(pid: int) -> bool:
    """Gone, or a zombie that whoever adopted it has not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def cpu_ticks(pid: int) -> int:
    """Processor time of all threads of a process, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def entries(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


def named_segments() -> int:
    return len(list(Path("/dev/shm").glob("*kiln*")))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the condition is another process's
            await asyncio.sleep(0.01)


async def kill(engine: AnEngine) -> None:
    if isinstance(engine, InstantEngine):
        engine.die()
        return
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not engine.alive)


@pytest.fixture(scope="module")
def config(models: Path) -> GenerationConfig:
    return tiny_config(models)


@pytest.fixture(scope="module")
def settings(models: Path) -> EngineSettings:
    return EngineSettings(models_directory=models, cpu_memory_bytes=1 << 30)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["process", "instant"])
async def engine(
    request: pytest.FixtureRequest, config: GenerationConfig, settings: EngineSettings
) -> AsyncIterator[AnEngine]:
    engine = EngineProcess(settings, [config]) if request.param == "process" else InstantEngine()
    await engine.start()
    yield engine
    await engine.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(config: GenerationConfig, settings: EngineSettings) -> AsyncIterator[EngineProcess]:
    engine = EngineProcess(settings, [config])
    await engine.start()
    yield engine
    await engine.stop()


async def test_the_same_request_gives_the_same_bytes(engine: AnEngine, config: GenerationConfig) -> None:
    first = await engine.run(Batch(1, config, ITEMS))
    second = await engine.run(Batch(2, config, ITEMS))
    assert (first.number, second.number) == (1, 2)
    assert [picture.key for picture in first.pictures] == [item.key for item in ITEMS]
    assert digests(first) == digests(second)
    assert len(set(digests(first).values())) == len(ITEMS)
    assert all(picture.data.startswith(b"\x89PNG\r\n\x1a\n") for picture in first.pictures)


async def test_alone_and_in_a_full_batch_the_sha_is_the_same(engine: AnEngine, config: GenerationConfig) -> None:
    together = digests(await engine.run(Batch(1, config, ITEMS)))
    for number, item in enumerate(ITEMS):
        assert digests(await engine.run(Batch(number, config, (item,)))) == {item.key: together[item.key]}
    assert digests(await engine.run(Batch(9, config, ITEMS[::-1]))) == together


async def test_seed_nought_is_a_seed(engine: AnEngine, config: GenerationConfig) -> None:
    # case DIF-11
    made = [digests(await engine.run(Batch(1, config, (Item("x", "a cat", "", seed),)))) for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]


async def test_a_bad_item_leaves_its_neighbours_as_they_are(engine: AnEngine, config: GenerationConfig) -> None:
    expected = digests(await engine.run(Batch(1, config, ITEMS[:3])))
    finished = await engine.run(Batch(2, config, (ITEMS[0], BAD, *ITEMS[1:3])))
    assert digests(finished) == expected
    (flaw,) = finished.flaws
    assert (flaw.key, flaw.code) == ("bad", "generation_error")
    assert flaw.message
    assert finished.bucket == config.bucket


async def test_an_idle_engine_that_dies_charges_nobody(engine: AnEngine, config: GenerationConfig) -> None:
    expected = digests(await engine.run(Batch(1, config, ITEMS)))
    starts = engine.starts
    await kill(engine)
    assert not engine.alive
    with pytest.raises(EngineDied) as died:
        await engine.run(Batch(2, config, ITEMS))
    assert not died.value.running
    await engine.start()
    assert engine.starts == starts + 1
    assert digests(await engine.run(Batch(3, config, ITEMS))) == expected


async def test_an_engine_that_is_not_started_says_so(settings: EngineSettings, config: GenerationConfig) -> None:
    for engine in (EngineProcess(settings), InstantEngine()):
        assert not engine.alive
        with pytest.raises(EngineDied, match="not started"):
            await engine.run(Batch(1, config, ITEMS))
        await engine.stop()
        await engine.stop()


async def test_a_batch_dies_with_its_engine(process: EngineProcess, config: GenerationConfig) -> None:
    expected = digests(await process.run(Batch(1, config, ITEMS)))
    pid = process.pid
    assert pid is not None
    before = cpu_ticks(pid)
    run = asyncio.create_task(process.run(Batch(2, config.model_copy(update={"steps": 500}), ITEMS)))
    await until(lambda: cpu_ticks(pid) > before + 10)
    os.kill(pid, signal.SIGSEGV)
    with pytest.raises(EngineDied, match="SIGSEGV") as died:
        await run
    assert died.value.running
    await process.start()
    assert process.pid != pid
    assert digests(await process.run(Batch(3, config, ITEMS))) == expected


async def test_a_cancelled_batch_is_not_the_answer_to_the_next(
    process: EngineProcess, config: GenerationConfig
) -> None:
    expected = digests(await process.run(Batch(1, config, ITEMS)))
    pid = process.pid
    assert pid is not None
    before = cpu_ticks(pid)
    run = asyncio.create_task(process.run(Batch(2, config.model_copy(update={"steps": 100}), ITEMS)))
    await until(lambda: cpu_ticks(pid) > before)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    finished = await process.run(Batch(3, config, ITEMS))
    assert finished.number == 3
    assert digests(finished) == expected
    assert process.pid == pid


async def test_ready_means_loaded_and_run_and_names_what_bytes_depend_on(
    settings: EngineSettings, config: GenerationConfig, models: Path
) -> None:
    # case DIF-25, GPU-14, GPU-17
    engine = EngineProcess(settings, [config, tiny_config(models, "sdxl")])
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    ready = await engine.start()
    ticking.cancel()
    assert ticks > 20  # the loop ran on meanwhile: starting takes seconds
    assert ready.timings["load"] > 0
    assert ready.timings["warm"] > 0
    assert ready.device.product
    assert ready.device.uuid
    assert ready.device.memory_bytes == settings.cpu_memory_bytes
    assert {"torch", "diffusers", "transformers"} <= ready.libraries.keys()
    finished = await engine.run(Batch(1, config, ITEMS))
    assert "load" not in finished.timings  # the first of the list is the one that stays
    swapped = await engine.run(Batch(2, tiny_config(models, "sdxl"), ITEMS))
    assert swapped.timings["load"] > 0
    await engine.stop()


async def test_a_model_that_is_missing_is_said_at_start_and_at_run(
    process: EngineProcess, settings: EngineSettings, config: GenerationConfig
) -> None:
    absent = config.model_copy(update={"model": ModelRef(name="absent", digest="sha256:" + "0" * 64)})
    pid = process.pid
    with pytest.raises(ModelUnavailable, match="make-tiny"):
        await process.run(Batch(1, absent, ITEMS))
    assert process.pid == pid
    assert not (await process.run(Batch(2, config, ITEMS))).flaws
    engine = EngineProcess(settings, [absent])
    with pytest.raises(ModelUnavailable, match="make-tiny"):
        await engine.start()
    assert not engine.alive


async def test_warm_up_that_fails_is_not_ready(settings: EngineSettings, config: GenerationConfig) -> None:
    # case DIF-25
    price = config.price.model_copy(update={"vram_bytes": 1 << 40})
    engine = EngineProcess(settings, [config.model_copy(update={"price": price})])
    with pytest.raises(EngineDied, match="first step of tiny-sd15@1 fails") as died:
        await engine.start()
    assert not died.value.running
    assert not engine.alive


async def test_an_engine_that_hangs_is_killed(settings: EngineSettings, config: GenerationConfig) -> None:
    engine = EngineProcess(settings.model_copy(update={"batch_seconds_max": 0.2, "stop_seconds_max": 0.1}))
    await engine.start()
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(EngineDied, match=r"no answer in 0\.2 s") as died:
        await engine.run(Batch(1, config, ITEMS))
    assert died.value.running
    await until(lambda: ended(pid))
    await engine.stop()


async def test_a_frozen_engine_is_stopped_in_bounded_time(settings: EngineSettings) -> None:
    engine = EngineProcess(settings.model_copy(update={"stop_seconds_max": 0.1}))
    await engine.start()
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE):
        await engine.stop()
    assert ended(pid)


async def test_an_engine_leaves_the_signals_of_its_group_to_its_consumer(
    process: EngineProcess, config: GenerationConfig
) -> None:
    pid = process.pid
    assert pid is not None
    for signal_ in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, signal_)
    assert not (await process.run(Batch(1, config, ITEMS))).flaws
    assert process.pid == pid


async def test_nothing_is_left_open(process: EngineProcess, config: GenerationConfig) -> None:
    def open_files() -> tuple[int, int]:
        assert process.pid is not None
        return entries("/proc/self/fd"), entries(f"/proc/{process.pid}/fd")

    # The engine closes its side after the consumer has the pictures, so an end is waited for.
    await process.run(Batch(1, config, ITEMS))
    before = open_files()
    for number in range(20):
        await process.run(Batch(number, config, ITEMS))
    await until(lambda: sum(open_files()) <= sum(before))
    assert named_segments() == 0


CONSUMER = """
import asyncio, sys
from pathlib import Path
from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, Item
from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig

async def main():
    config = GenerationConfig.model_validate_json(sys.argv[1])
    engine = EngineProcess(EngineSettings(models_directory=Path(sys.argv[2])), [config])
    await engine.start()
    finished = await engine.run(Batch(1, config, (Item("a", "a cat", "", 0),)))
    assert finished.pictures
    print(engine.pid, "torch" in sys.modules, flush=True)
    long = config.model_copy(update={"steps": 500, "bucket": 256})  # minutes: it does not end by itself meanwhile
    await engine.run(Batch(2, long, (Item("a", "a cat", "", 0),)))

asyncio.run(main())
"""


async def test_a_killed_consumer_takes_its_engine_along_and_never_had_torch(
    config: GenerationConfig, models: Path
) -> None:
    consumer = subprocess.Popen(  # noqa: ASYNC220 - a fork and exec, in a test
        [sys.executable, "-c", CONSUMER, config.model_dump_json(), str(models)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert consumer.stdout is not None
    with consumer, consumer.stdout:
        line = await asyncio.to_thread(consumer.stdout.readline)
        pid, torch_imported = line.split()
        assert torch_imported == "False"
        before = cpu_ticks(int(pid))
        await until(lambda: cpu_ticks(int(pid)) > before)
        consumer.kill()
    await until(lambda: ended(int(pid)))

"""What the engine as a process promises beside: when it is ready, how it dies, and that it leaves nothing behind."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, EngineDied, Profiled, Pulse, Refused
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig, ModelRef
from tests.contract.engines import ITEMS, changed, config, entries, settings, until
from tests.streaming import PATIENCE, Heard, digests, run
from tests.tiny import models, tiny_config

__all__ = ["config", "models", "settings"]

# One loop for the module: a started engine is dear, and is shared by all tests that leave it as it was.
pytestmark = pytest.mark.asyncio(loop_scope="module")


def ended(pid: int) -> bool:
    """Gone, or a zombie that whoever adopted it has not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def environment(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_text().split("\0")


def cpu_ticks(pid: int) -> int:
    """Processor time of all threads of a process, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def named_segments() -> set[Path]:
    return set(Path("/dev/shm").glob("*kiln*"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(config: GenerationConfig, settings: EngineSettings) -> AsyncIterator[EngineProcess]:
    engine = EngineProcess(settings, [config])
    await engine.start()
    yield engine
    await engine.stop()


async def test_a_signal_that_killed_it_is_named(process: EngineProcess, config: GenerationConfig) -> None:
    pid = process.pid
    assert pid is not None
    heard = Heard(process)
    await process.submit(Batch(changed(config, steps=500), ITEMS))
    await heard.until(lambda: len(heard.joined) == 4)
    os.kill(pid, signal.SIGSEGV)
    with pytest.raises(EngineDied, match="SIGSEGV"):
        await heard.until(lambda: False)
    await process.start()
    assert process.pid != pid


async def test_ready_means_loaded_and_drawn_and_names_what_bytes_depend_on(
    settings: EngineSettings, config: GenerationConfig, models: Path
) -> None:
    # case DIF-25, GPU-14, GPU-17
    wide = changed(config, width=96, batching="whole")
    sdxl = tiny_config(models, "sdxl")
    one_model = settings.model_copy(update={"model_cache_bytes": 0})
    engine = EngineProcess(one_model, [config, wide, sdxl])
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
    assert all(ready.timings[what] > 0 for what in ("import", "load", "warm"))
    assert ready.device.product
    assert ready.device.uuid
    assert ready.device.memory_bytes == settings.cpu_memory_bytes
    assert {"torch", "diffusers", "transformers", "av", "pillow"} <= ready.libraries.keys()
    assert ready.libraries["threads"] == str(settings.threads)
    assert set(ready.answers) == {one.config_hash for one in (config, wide, sdxl)}
    assert len(set(ready.answers.values())) == 3
    first = await run(engine, config, *ITEMS)
    assert not any("load" in one.share.timings for one in first.ended.values())  # the first of the list stays
    swapped = await run(engine, sdxl, *ITEMS)
    assert all(one.share.timings["load"] > 0 for one in swapped.ended.values())
    assert any(pulse.doing == "load" for pulse in swapped.of(Pulse))
    again = await engine.start()
    assert again.answers == ready.answers
    await engine.stop()


async def test_an_engine_that_draws_another_picture_than_before_is_not_started(
    settings: EngineSettings, config: GenerationConfig
) -> None:
    """Case GPU-02."""
    engine = EngineProcess(settings, [config], answers={config.config_hash: "0" * 64})
    with pytest.raises(EngineDied, match="another one"):
        await engine.start()
    assert not engine.alive
    assert engine.pid is None


async def test_a_model_that_is_missing_is_said_at_start_and_later(
    process: EngineProcess, settings: EngineSettings, config: GenerationConfig
) -> None:
    absent = changed(config, model=ModelRef(name="absent", digest="sha256:" + "0" * 64))
    pid = process.pid
    heard = Heard(process)
    await process.submit(Batch(absent, ITEMS[:1]))
    await process.submit(Batch(config, ITEMS[1:2]))
    await process.submit(Batch(changed(absent, width=96), ITEMS[2:3]))
    await heard.until(lambda: len(heard.refused) == 2)
    await heard.until_ended(["b"])
    assert set(heard.refused) == {"a", "c"}
    assert "make-tiny" in heard.of(Refused)[0].message
    assert "a" not in heard.joined
    assert process.pid == pid
    engine = EngineProcess(settings, [absent])
    with pytest.raises(ModelUnavailable, match="make-tiny"):
        await engine.start()
    assert not engine.alive


async def test_warm_up_that_fails_is_not_ready(settings: EngineSettings, config: GenerationConfig) -> None:
    # case DIF-25
    price = config.price.model_copy(update={"vram_bytes": 1 << 40})
    engine = EngineProcess(settings, [changed(config, price=price)])
    with pytest.raises(EngineDied, match="first picture of tiny-sd15@1 fails") as died:
        await engine.start()
    assert not died.value.joined
    assert not engine.alive


def impatient(engine: EngineProcess) -> None:
    """From now on: so little would kill a healthy engine where a crowded machine starts it."""
    link = engine._link
    assert link is not None
    link._settings = link._settings.model_copy(update={"watchdog_seconds_min": 0.5})
    link._silence_max = 0.5


@pytest.mark.parametrize("batching", ["step", "whole"])
async def test_an_engine_that_hangs_is_killed(
    settings: EngineSettings, config: GenerationConfig, batching: str
) -> None:
    engine = EngineProcess(settings.model_copy(update={"stop_seconds_max": 0.1}))
    await engine.start()
    pid = engine.pid
    assert pid is not None
    heard = Heard(engine)
    await engine.submit(Batch(changed(config, steps=500, batching=batching), ITEMS))
    await heard.until(lambda: len(heard.joined) == 4 and any(pulse.doing == "step" for pulse in heard.of(Pulse)))
    os.kill(pid, signal.SIGSTOP)
    impatient(engine)
    with pytest.raises(EngineDied, match="no sign of life") as died:
        await heard.until(lambda: False)
    assert died.value.joined == {"a", "b", "c", "d"}
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
    assert len((await run(process, config, *ITEMS)).pictures) == 4
    assert process.pid == pid


async def test_threads_that_wait_leave_the_processor_to_others(process: EngineProcess) -> None:
    assert process.pid is not None
    assert "OMP_WAIT_POLICY=PASSIVE" in environment(process.pid)


async def test_nothing_is_left_open(process: EngineProcess, config: GenerationConfig) -> None:
    def open_files() -> tuple[int, int]:
        assert process.pid is not None
        return entries("/proc/self/fd"), entries(f"/proc/{process.pid}/fd")

    # The engine closes its side after the consumer has the pictures, so an end is waited for.
    await run(process, config, *ITEMS)
    before, segments = open_files(), named_segments()
    for _ in range(20):
        await run(process, config, *ITEMS)
    await until(lambda: sum(open_files()) <= sum(before))
    assert named_segments() <= segments  # others of this machine may have theirs


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
async def test_step_by_step_and_whole_give_the_same_files(process: EngineProcess, models: Path, family: str) -> None:
    step, whole = (tiny_config(models, family, batching=how, scheduler="unipc") for how in ("step", "whole"))
    assert digests(await run(process, step, *ITEMS)) == digests(await run(process, whole, *ITEMS))


async def test_a_trace_of_the_next_steps_is_told(process: EngineProcess, config: GenerationConfig) -> None:
    heard = Heard(process)
    await process.profile(2)
    await process.submit(Batch(config, ITEMS))
    await heard.until(lambda: bool(heard.of(Profiled)))
    (profiled,) = heard.of(Profiled)
    assert profiled.steps == 2
    trace = json.loads(gzip.decompress(profiled.trace))
    assert any("conv" in event.get("name", "") for event in trace["traceEvents"])
    await heard.until_ended("abcd")


CONSUMER = """
import asyncio, sys
from pathlib import Path
from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, Ended, Item, Joined
from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig

async def main():
    config = GenerationConfig.model_validate_json(sys.argv[1])
    engine = EngineProcess(EngineSettings(models_directory=Path(sys.argv[2])), [config])
    await engine.start()
    item = Item("a", "a cat", "", 0)
    await engine.submit(Batch(config, (item,)))
    while not any(isinstance(event, Ended) and event.outcome for event in await engine.events()):
        pass
    print(engine.pid, "torch" in sys.modules, flush=True)
    # Minutes: it does not end by itself meanwhile.
    long = GenerationConfig.model_validate({**config.model_dump(), "steps": 500, "bucket": 256})
    await engine.submit(Batch(long, (item,)))
    while not any(isinstance(event, Joined) for event in await engine.events()):
        pass
    print("joined", flush=True)
    await asyncio.Event().wait()

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
        assert await asyncio.to_thread(consumer.stdout.readline) == "joined\n"
        before = cpu_ticks(int(pid))
        await until(lambda: cpu_ticks(int(pid)) > before)
        consumer.kill()
    await until(lambda: ended(int(pid)))

"""steady: 500 requests of changing size and configuration through one GPU consumer; nothing may grow (case DIF-22).

    python -m tests.fault.soak.steady [--requests N]

Exit status 0: memory, descriptors, threads, processes and the time of a wave stay as they are. 1: what grew is printed.
"""

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import yaml
from rich.console import Console
from rich.table import Table

from gpu_consumer.models.tiny import make_tiny
from schemas.config import GenerationConfig
from schemas.work import WorkItem
from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.fault.children import MARK, Child, marked, shared_memory, unmapped
from tests.fault.soak.growth import SLOPE_BYTES_MAX, WARM_WAVES, Wave, cpu_seconds, grown, growth, slope
from tests.fault.soak.probe import Holding, children_of, holding
from tests.fault.world import ROOT, broker
from tests.integration.gpu_pool import GpuPool, eventually
from tests.kafka import POOL, small_catalogue
from tests.ports import free_port
from tests.tiny import tiny_config

HOME = ROOT / ".kiln" / "steady"
WAVE = 25  # requests; every wave asks for the same configurations in another order
_STOP_SECONDS = 20.0

console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 120)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.soak.steady", description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=500)
    options = parser.parse_args()
    home = HOME / f"run-{os.getpid()}"
    home.mkdir(parents=True)
    memory_before = shared_memory()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # new topics have no leader for a moment
    with broker(home / "broker", console) as bootstrap:
        kafka = KafkaSettings(bootstrap_servers=bootstrap)
        waves, status = asyncio.run(Steady(kafka, home).run(options.requests // WAVE))
    wrong = [*grown(waves), *left(home.name, memory_before)]
    if status != 0:
        wrong.append(f"the consumer ended with {status}")
    console.print(table_of(waves))
    for sentence in wrong:
        console.print(f"[red]FLAW[/red] {sentence}")
    if wrong:
        console.print(f"evidence in {home}")
        return 1
    shutil.rmtree(home)
    return 0


def configs(models: Path) -> list[GenerationConfig]:
    """Sizes, steps, schedulers, formats and models; those that join at any step, and those that run whole."""
    changes: list[tuple[str, dict[str, Any]]] = [
        ("sd15", {"scheduler": "euler", "steps": 4}),
        ("sd15", {"scheduler": "ddim", "steps": 9, "image_format": "webp"}),
        ("sd15", {"scheduler": "dpmpp-2m", "steps": 5, "width": 96}),
        ("sd15", {"scheduler": "unipc", "steps": 3, "width": 128, "height": 128, "image_format": "jpeg"}),
        ("sd15", {"scheduler": "euler-ancestral", "steps": 6, "bucket": 2}),
        ("sd15", {"scheduler": "euler", "steps": 4, "guidance_scale": 1.0, "batching": "whole"}),
        ("sd15", {"scheduler": "ddim", "steps": 4, "height": 128, "batching": "whole", "bucket": 3}),
        ("sdxl", {"scheduler": "euler", "steps": 4}),
        ("sdxl", {"scheduler": "dpmpp-2m", "steps": 3, "width": 96, "height": 96}),
        ("sdxl", {"scheduler": "euler", "steps": 3, "batching": "whole"}),
    ]
    return [
        tiny_config(models, family, name=f"steady{n}", pool=POOL, **different)
        for n, (family, different) in enumerate(changes)
    ]


def wave_of(number: int, among: Sequence[GenerationConfig]) -> list[WorkItem]:
    """WAVE requests with prompts that were never sent before."""
    now = datetime.now(UTC)
    made = []
    for n in range(WAVE):
        config = among[(n * 3 + number) % len(among)]  # 3 and 10 have no common divisor: another order each time
        name = f"steady/{number}/{n}"
        made.append(
            WorkItem(
                job_id=str(uuid5(NAMESPACE_URL, name)), tenant=f"tenant{n % 3}", request_id=name,
                prompt=f"{name} " + "and a very long sentence " * (n % 4), negative_prompt=("", "grey")[n % 2],
                config=config, config_hash=config.config_hash, seed=1000 * number + n, images=1 + n % 3,
                lane=("interactive", "standard", "bulk")[n % 3], deadline=now + timedelta(hours=1),
                results_partition=n % 2, price_gpu_seconds=0.1, accepted_at=now,
            )
        )  # fmt: skip
    return made


class Steady:
    def __init__(self, kafka: KafkaSettings, home: Path) -> None:
        self._kafka = kafka
        self._home = home
        self._catalogue = small_catalogue(f"steady-{os.getpid()}")
        self._pool = GpuPool(kafka, self._catalogue, home / "store")

    async def run(self, waves: int) -> tuple[list[Wave], int | None]:
        """Every wave, and the exit status of the consumer. Fails where a request has no picture."""
        models = self._home / "models"
        make_tiny(models)
        among = configs(models)
        await create_topics(self._kafka, self._catalogue)
        consumer = self._consumer(models)
        consumer.start()
        try:
            await eventually(lambda: asyncio.to_thread(consumer.ready), "the consumer is ready")
            found = [await self._wave(number, among) for number in range(waves)]
            consumer.signal(signal.SIGTERM)
            status = await asyncio.to_thread(consumer.wait, _STOP_SECONDS)
        finally:
            consumer.destroy()
        results = await self._pool.results()
        assert len(results) == waves * WAVE, f"{len(results)} results of {waves * WAVE} requests"
        assert {result.status for result in results} == {"succeeded"}
        return found, status

    def _consumer(self, models: Path) -> Child:
        pools = self._home / "pools.yaml"
        pools.write_text(yaml.safe_dump({"pools": {POOL: self._catalogue.pools[POOL].model_dump()}}), encoding="utf-8")
        port = free_port()
        environment: Mapping[str, str] = {
            **os.environ,
            MARK: self._home.name,
            "KAFKA_BOOTSTRAP_SERVERS": self._kafka.bootstrap_servers,
            "KILN_TOPICS_PREFIX": self._catalogue.settings.prefix,
            "KILN_TOPICS_REQUESTS_PARTITIONS": str(self._catalogue.requests_partitions),
            "KILN_POOLS": str(pools),
            "KILN_STORE_URL": f"file://{self._home / 'store'}",
            "KILN_GPU_POOL": POOL,
            "KILN_GPU_DEVICE": "cpu",
            "KILN_GPU_PRELOAD": "",
            "KILN_GPU_MODELS_DIR": str(models),
            "KILN_GPU_HEALTH_PORT": str(port),
        }
        command = [str(Path(sys.executable).with_name("kiln")), "gpu-consumer", "run"]
        return Child("consumer", command, environment, port, self._home / "consumer.log")

    async def _wave(self, number: int, among: Sequence[GenerationConfig]) -> Wave:
        started = time.monotonic()
        due = (number + 1) * WAVE
        await self._pool.produce(wave_of(number, among))
        await eventually(lambda: self._stored() >= due, f"{due} outcomes")
        await self._pool.wait_until_done()
        seconds = time.monotonic() - started
        consumer, engine = self._processes()
        return Wave(due, seconds, holding(consumer), holding(engine))

    def _stored(self) -> int:
        return sum(1 for _ in (self._home / "store").rglob("outcomes/*.json"))

    def _processes(self) -> tuple[int, int]:
        """Ids of the consumer and of its one child."""
        pids = {int(line.split()[0]) for line in marked(self._home.name)}
        parents = [pid for pid in pids if children_of(pid)]
        assert len(parents) == 1, f"not one consumer with one engine: {marked(self._home.name)}"
        (engine,) = children_of(parents[0])
        return parents[0], engine


def left(mark: str, memory_before: set[str]) -> Iterator[str]:
    for process in marked(mark):
        yield f"left behind: {process}"
    for name in sorted(unmapped(shared_memory() - memory_before)):
        yield f"left behind: shared memory {name}"


def table_of(waves: Sequence[Wave]) -> Table:
    steady = waves[WARM_WAVES:]
    table = Table(title=f"steady: {waves[-1].requests} requests, looked at from request {steady[0].requests} on")
    for column in ("", "consumer", "engine"):
        table.add_column(column, justify="left" if not column else "right")
    requests = [wave.requests for wave in steady]
    held: dict[str, list[Holding]] = {
        "consumer": [wave.consumer for wave in steady],
        "engine": [wave.engine for wave in steady],
    }

    def row(title: str, value: Any) -> None:
        table.add_row(title, *(value(each) for each in held.values()))

    row("MB, first and last", lambda h: f"{h[0].resident_bytes / 1e6:.1f} {h[-1].resident_bytes / 1e6:.1f}")
    row("bytes a request, at most", lambda _: str(SLOPE_BYTES_MAX))
    row("bytes a request, by regression", lambda h: f"{slope(requests, [one.resident_bytes for one in h]):.0f}")
    for what in ("descriptors", "memory_files", "threads", "children"):
        row(f"{what}, first and last", lambda h, w=what: f"{getattr(h[0], w)} {getattr(h[-1], w)}")
    table.add_row("CPU seconds of a wave, last to first quarter", f"{growth(cpu_seconds(steady)):.2f}", "")
    table.add_row("seconds of a wave, last to first quarter", f"{growth([w.seconds for w in steady]):.2f}", "")
    return table


if __name__ == "__main__":
    sys.exit(main())

"""The requests of a run, the same in every run but for their ids, and what each of them must look like."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, Ended, Item, Picture
from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig
from schemas.work import WorkItem
from tests.kafka import POOL
from tests.tiny import tiny_config

BUCKET = 4
LOWER = (2, 1)  # what is left of the bucket where memory ran out
_WHOLE_EVERY = 10  # the others join and leave at any step
_WAYS = (("euler", 3), ("ddim", 5), ("dpmpp-2m", 8), ("euler-ancestral", 6))

Digests = Mapping[tuple[int, int], str]  # number of a request, bucket it was made in -> SHA-256 of its picture


def configs(models: Path) -> list[GenerationConfig]:
    """Four of one kind, which share batches, and one whose pictures start and end together."""
    steps = [
        tiny_config(models, name=f"steps{steps}", scheduler=scheduler, steps=steps, bucket=BUCKET, pool=POOL)
        for scheduler, steps in _WAYS
    ]
    whole = tiny_config(models, name="whole", batching="whole", scheduler="euler", bucket=BUCKET, pool=POOL)
    return [*steps, whole]


def config_of(n: int, among: Sequence[GenerationConfig]) -> GenerationConfig:
    return among[-1] if n % _WHOLE_EVERY == _WHOLE_EVERY - 1 else among[n % len(_WAYS)]


def job_of(run: str, n: int) -> str:
    return str(uuid5(NAMESPACE_URL, f"{run}/{n}"))


def work_items(run: str, count: int, among: Sequence[GenerationConfig]) -> list[WorkItem]:
    """Request n of every run asks for the same picture."""
    now = datetime.now(UTC)
    made = []
    for n in range(count):
        config = config_of(n, among)
        made.append(
            WorkItem(
                job_id=job_of(run, n), tenant="blue", request_id=f"{run}-{n}", prompt=f"request number {n}",
                config=config, config_hash=config.config_hash, seed=n, images=1, lane="standard",
                deadline=now + timedelta(hours=1), results_partition=n % 2, price_gpu_seconds=0.1, accepted_at=now,
            )
        )  # fmt: skip
    return made


async def digests(models: Path, count: int, among: Sequence[GenerationConfig]) -> dict[tuple[int, int], str]:
    """From an engine that nothing ails, in every bucket there may be."""
    engine = EngineProcess(EngineSettings(models_directory=models))
    await engine.start()
    try:
        return await digests_of(engine, count, among)
    finally:
        await engine.stop()


async def digests_of(
    engine: EngineProcess, count: int, among: Sequence[GenerationConfig]
) -> dict[tuple[int, int], str]:
    """The same from one that runs."""
    found: dict[tuple[int, int], str] = {}
    for bucket in (BUCKET, *LOWER):
        for config in among:
            mine = [n for n in range(count) if config_of(n, among) is config]
            found |= await _draw(engine, config.model_copy(update={"bucket": bucket}), mine)
    return found


async def _draw(engine: EngineProcess, config: GenerationConfig, numbers: Sequence[int]) -> dict[tuple[int, int], str]:
    items = [Item(str(n), f"request number {n}", "", n) for n in numbers]
    for start in range(0, len(items), config.bucket):
        await engine.submit(Batch(config, tuple(items[start : start + config.bucket])))
    found: dict[tuple[int, int], str] = {}
    while len(found) < len(items):
        for event in await engine.events():
            if isinstance(event, Ended):
                assert isinstance(event.outcome, Picture), f"no picture of request {event.key}: {event.outcome}"
                found[int(event.key), event.outcome.bucket] = hashlib.sha256(event.outcome.data).hexdigest()
    return found

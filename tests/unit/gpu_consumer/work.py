"""Work items and indexes for tests without a broker."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from gpu_consumer.backlog import Job
from gpu_consumer.clock import Clock
from gpu_consumer.index import Change
from gpu_consumer.intake import read_work
from gpu_consumer.ledger import Ledger
from schemas.codec import encode
from schemas.config import GenerationConfig
from schemas.outcome import WorkRecord
from schemas.request import LANES, Lane
from schemas.work import WorkItem
from streams.kafka.errors import LeaseVoid

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class FixedClock(Clock):
    """Stands still until it is moved. The steady clock begins at 1000."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def steady(self) -> float:
        return 1000.0 + self.seconds

    def wall_ms(self) -> int:
        return int((EPOCH.timestamp() + self.seconds) * 1000)


class RunningClock(FixedClock):
    """Begins where the other stands, and goes on."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:  # type: ignore[override]
        return time.monotonic() - self._began


def config(**changes: Any) -> GenerationConfig:
    values: dict[str, Any] = {
        "name": "sketch", "version": 1, "family": "sd15", "steps": 4, "guidance_scale": 5.0, "width": 64, "height": 64,
        "bucket": 4, "pool": "a", "model": {"name": "tiny", "digest": "sha256:" + "0" * 64},
        "price": {"gpu_seconds": 0.2, "vram_bytes": 1 << 20},
    }  # fmt: skip
    return GenerationConfig.model_validate(values | changes)


def work_item(name: str, **changes: Any) -> WorkItem:
    made = changes.pop("config", config())
    values: dict[str, Any] = {
        "job_id": str(uuid5(NAMESPACE_URL, name)), "tenant": "blue", "request_id": name, "prompt": f"a {name}",
        "config": made, "config_hash": made.config_hash, "seed": 7, "images": 1, "lane": "standard",
        "deadline": EPOCH + timedelta(hours=1), "results_partition": 1, "price_gpu_seconds": 0.2, "accepted_at": EPOCH,
    }  # fmt: skip
    return WorkItem(**(values | changes))


class FakeIndex:
    """An Index whose transactions are committed at once, until `void` is set, and its last one until `fenced` is."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.void = False
        self.fenced = False
        self.ledgers: dict[Lane, Ledger] = {lane: Ledger() for lane in LANES}
        self.outputs: list[Any] = []

    def ledger(self, lane: Lane) -> Ledger:
        return self.ledgers[lane]

    async def write(self, changes: Iterable[Change]) -> None:
        if self.void:
            raise LeaseVoid("fenced")
        for change in changes:
            change.edit(self.ledgers[change.lane])
            self.outputs += change.outputs

    async def hand_back(self, incarnation: str, keeps: Callable[[Lane, int], bool] = lambda *_: False) -> None:
        if self.fenced:
            raise LeaseVoid("fenced")
        for lane, ledger in self.ledgers.items():
            ledger.hand_back(incarnation, partial(keeps, lane))


def job_of(item: WorkItem, index: Any, offset: int = 0, *headers: tuple[str, bytes]) -> Job:
    value = encode(item)
    record = WorkRecord(topic=f"kiln.work.a.{item.lane}", partition=index.number, offset=offset)
    clock = FixedClock()
    work = read_work(value, (*item.headers(), *headers), 4)
    return Job(index, item.lane, record, work, item.job_id.encode(), value, clock.steady_of(work.deadline_ms))

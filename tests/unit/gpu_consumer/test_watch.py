"""What the watch tells of the jobs that were taken."""

import math
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.watch import Watch, oldest
from streams.kafka.settings import KafkaSettings
from tests.unit.gpu_consumer.work import EPOCH, FakeIndex, FixedClock, job_of, work_item


def test_the_oldest_is_told_by_lane_and_by_whether_it_has_begun() -> None:
    index = FakeIndex()
    items = [
        work_item(name, accepted_at=EPOCH - timedelta(seconds=age)) for name, age in (("a", 9), ("b", 4), ("c", 70))
    ]
    older, newer, begun = (job_of(item, index) for item in items)
    begun.started = True
    found = oldest([newer, older, begun], EPOCH)
    lane = older.lane
    assert found[lane, "waiting"] == 9
    assert found[lane, "begun"] == 70
    others = {seconds for (each, _), seconds in found.items() if each != lane}
    assert others == {0.0}, "a lane without jobs is told, too, or its last figure would stand for ever"


def test_a_clock_that_runs_behind_makes_nobody_younger_than_now() -> None:
    job = job_of(work_item("a", accepted_at=EPOCH + timedelta(seconds=3)), FakeIndex())
    assert set(oldest([job], EPOCH).values()) == {0.0}


AT = TopicPartition("kiln.work.a.bulk", 0)


def watch_of(metrics: GpuMetrics, fetcher: "LeavingFetcher", clock: FixedClock, index: object = None) -> Watch:
    nothing = cast(Any, None)
    backlog = SimpleNamespace(jobs={}, count=lambda _: 0, pictures=lambda _: 0)
    watch = Watch(
        GpuConsumerSettings(pool="a"), KafkaSettings(bootstrap_servers="127.0.0.1:1"), cast(Any, fetcher),
        cast(Any, SimpleNamespace(get=lambda _: index)), cast(Any, backlog), nothing, nothing, nothing,
        cast(Any, SimpleNamespace(paused=None)), metrics, clock,
    )  # fmt: skip
    watch._views = {}
    return watch


class LeavingFetcher:
    """Two records of its partition cannot be read yet. Then its broker is away."""

    topics = (AT.topic,)
    away = False

    def lane_of(self, _: str) -> str:
        return "bulk"

    async def ends(self) -> dict[TopicPartition, int]:
        if self.away:
            raise KafkaConnectionError("no broker answers")
        return {AT: 10}


async def test_a_partition_that_ends_below_its_ledger_is_told() -> None:
    """Its topic was made anew: what is written there is passed by until the ledger is made anew, too."""
    metrics, fetcher = GpuMetrics(), LeavingFetcher()
    ledger = SimpleNamespace(watermark=11)
    watch = watch_of(metrics, fetcher, FixedClock(), SimpleNamespace(ledger=lambda _: ledger))

    async def told() -> float | None:
        watch._count(await watch._ask_for_ends())
        found: float | None = metrics.registry.get_sample_value("kiln_gpu_passed_by_partitions")
        return found

    assert await told() == 1
    assert "ends at 10 and 11 of it are finished" in (watch._rewound or "")
    ledger.watermark = 10
    assert await told() == 0
    fetcher.away = True
    assert math.isnan(await told() or 0), "nobody knows"


async def test_a_broker_that_is_away_tells_neither_that_a_transaction_is_open_nor_that_none_is() -> None:
    clock, metrics, fetcher = FixedClock(), GpuMetrics(), LeavingFetcher()
    watch = watch_of(metrics, fetcher, clock)

    async def look() -> tuple[float | None, float | None]:
        ends = await watch._ask_for_ends()
        watch._count(ends)
        watch._look_for_open_transactions(ends, {AT: 12})
        value = metrics.registry.get_sample_value
        age = value("kiln_gpu_view_age_seconds", {"view": "ends"})
        return value("kiln_gpu_unstable_records", {"topic": AT.topic}), age

    assert await look() == (2, 0)
    clock.seconds += 20
    assert await look() == (2, 0)
    assert metrics.registry.get_sample_value("kiln_gpu_unstable_seconds", {"topic": AT.topic}) == 20
    fetcher.away = True
    clock.seconds += 30
    assert await look() == (2, 30), "for a while the last stands"
    metrics.forget("unstable_records", topic=AT.topic)
    assert await look() == (None, 30), "it is not set anew, so it leaves"
    fetcher.away = False
    assert (await look())[1] == 0
    value = metrics.registry.get_sample_value("kiln_gpu_unstable_seconds", {"topic": AT.topic})
    assert value == 50, "since when it stands is not forgotten meanwhile"

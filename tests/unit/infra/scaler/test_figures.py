"""Whose word is believed, and for how long."""

import asyncio
import math
from typing import Any

import pytest

from gpu_consumer.ledger import Ledger
from infra.scaler.book import Place
from infra.scaler.figures import Figures
from infra.scaler.metrics import ScalerMetrics
from infra.scaler.settings import ScalerSettings
from infra.scaling.keda import Partition
from streams.kafka.settings import KafkaSettings
from tests.kafka import POOL, small_catalogue

NEVER = math.inf


class Sources:
    """How old each source's word is."""

    def __init__(self) -> None:
        self.figures = Figures(
            ScalerSettings(age_seconds_max=60),
            KafkaSettings(bootstrap_servers="127.0.0.1:1"),
            small_catalogue("kiln"),
            {POOL: 10.0},
            ScalerMetrics(),
        )

    def are(self, *, offsets: float = NEVER, records: float = NEVER, ledger: float = NEVER) -> None:
        ages: Any = lambda pool: {"offsets": offsets, "records": records, "ledger": ledger}  # noqa: E731
        self.figures._ages = ages  # type: ignore[method-assign]

    def work(self, lag: int) -> None:
        self.figures._books[POOL].look({Place("bulk", 0): Partition(0, 0, lag)}, {})
        self.figures.changed(POOL)

    def exposed(self, name: str, labels: dict[str, str]) -> float | None:
        self.figures.expose()
        value: float | None = self.figures._metrics.registry.get_sample_value(name, labels)
        return value

    def seconds(self) -> float | None:
        signal = self.figures.current(POOL)
        return None if signal is None else signal.seconds


@pytest.fixture
def sources() -> Sources:
    return Sources()


async def test_nothing_known_is_not_nothing_to_do(sources: Sources) -> None:
    sources.are()
    sources.work(3)
    assert sources.seconds() is None


async def test_what_was_summed_up_of_nothing_known_is_not_told_later(sources: Sources) -> None:
    sources.are()
    sources.figures.changed(POOL)
    sources.figures._books[POOL].look({Place("bulk", 0): Partition(0, 0, 3)}, {})
    sources.are(offsets=1)
    assert sources.seconds() == 30


async def test_offsets_alone_are_enough(sources: Sources) -> None:
    sources.are(offsets=1)
    sources.work(3)
    assert sources.seconds() == 30


async def test_records_and_ledgers_together_are_enough(sources: Sources) -> None:
    sources.are(records=1, ledger=1)
    sources.work(3)
    assert sources.seconds() == 30


@pytest.mark.parametrize("one", [{"records": 1.0}, {"ledger": 1.0}])
async def test_either_of_them_alone_is_not(sources: Sources, one: dict[str, float]) -> None:
    sources.are(**one)
    sources.work(3)
    assert sources.seconds() is None


async def test_the_last_value_stands_for_a_bounded_time_and_is_never_nothing(sources: Sources) -> None:
    sources.are(offsets=1, records=1, ledger=1)
    sources.work(3)
    sources.are(offsets=60, records=70, ledger=70)
    assert sources.seconds() == 30
    sources.are(offsets=61, records=70, ledger=70)
    assert sources.seconds() is None
    sources.are(offsets=1)
    assert sources.seconds() == 30


async def test_the_first_work_of_a_pool_at_rest_is_told_at_once(sources: Sources) -> None:
    sources.are(offsets=1)
    sources.work(0)
    news = sources.figures.news(POOL)
    sources.work(1)
    assert news.is_set()  # nobody else has run meanwhile
    # What comes to a pool that has work already is told with the next sum.
    news = sources.figures.news(POOL)
    sources.work(2)
    assert not news.is_set()
    assert sources.seconds() == 10
    summing = asyncio.create_task(sources.figures._sum_up())
    await news.wait()
    assert sources.seconds() == 20
    summing.cancel()


async def test_the_metrics_tell_what_is_told(sources: Sources) -> None:
    sources.are(offsets=7, records=8, ledger=9)
    sources.work(3)
    value = sources.exposed
    assert value("kiln_scaler_waiting_gpu_seconds", {"pool": POOL, "lane": "bulk"}) == 30
    assert value("kiln_scaler_signal_age_seconds", {"pool": POOL}) == 7
    assert value("kiln_scaler_source_age_seconds", {"pool": POOL, "source": "ledger"}) == 9


async def test_what_is_told_no_more_is_exposed_no_more(sources: Sources) -> None:
    """A gauge that keeps its last value in an outage is a lie that an alert believes."""
    ours = {
        "kiln_scaler_waiting_gpu_seconds": {"pool": POOL, "lane": "bulk"},
        "kiln_scaler_running_gpu_seconds": {"pool": POOL},
        "kiln_scaler_replicas_in_time": {"pool": POOL},
        "kiln_scaler_consumers": {"pool": POOL},
        "kiln_scaler_disbelieved_partitions": {"pool": POOL},
    }
    sources.are(offsets=1, records=1, ledger=1)
    sources.work(3)
    assert None not in [sources.exposed(*each) for each in ours.items()]
    sources.are(offsets=61, records=1, ledger=1)
    assert sources.exposed("kiln_scaler_consumers", {"pool": POOL}) is None, "only the group knows of them"
    assert sources.exposed("kiln_scaler_running_gpu_seconds", {"pool": POOL}) == 0
    sources.are(offsets=61, records=61, ledger=61)
    assert [sources.exposed(*each) for each in ours.items()] == [None] * len(ours)
    assert sources.exposed("kiln_scaler_signal_age_seconds", {"pool": POOL}) == 61
    sources.are(offsets=1)
    assert None not in [sources.exposed(*each) for each in ours.items()]


async def test_a_ledger_that_is_not_believed_is_said_once(sources: Sources, caplog: pytest.LogCaptureFixture) -> None:
    book, at = sources.figures._books[POOL], Place("bulk", 1)
    sources.are(offsets=1, records=1, ledger=1)
    book.take_ledger(at, Ledger(watermark=9))
    for _ in range(2):
        book.look({at: Partition(None, 0, 3)}, book.watermarks())
        sources.figures.changed(POOL)
        sources.figures.warn()
    said = "kiln.work.a.bulk[1] ends below what is told to be finished of it"
    assert [record.getMessage().startswith(said) for record in caplog.records] == [True]
    assert (sources.figures.disbelieved(POOL) or "").startswith(said)
    assert sources.exposed("kiln_scaler_disbelieved_partitions", {"pool": POOL}) == 1
    assert sources.seconds() == 30
    book.look({at: Partition(9, 0, 9)}, book.watermarks())
    sources.figures.warn()
    assert sources.figures.disbelieved(POOL) is None
    assert sources.exposed("kiln_scaler_disbelieved_partitions", {"pool": POOL}) == 0

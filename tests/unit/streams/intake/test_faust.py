"""What of Faust is used, and what is not; and what of its own ways of waiting we took over does what it expects."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from faust.types import TP

from streams.intake.faust import _feed, _make_app
from streams.kafka.settings import KafkaSettings

PATIENCE_SECONDS = 30


@pytest.fixture
async def consumer() -> AsyncIterator[Any]:
    """Not started: it has a client and no broker."""
    made = _make_app(KafkaSettings(bootstrap_servers="127.0.0.1:1"), "group").consumer
    yield made
    pending = asyncio.all_tasks() - {asyncio.current_task()}
    assert not {task for task in pending if not task.cancelling()}, "a task is left behind"


class _Message:
    topic = "requests"
    tp = TP("requests", 0)
    acked = False

    def __init__(self, offset: int) -> None:
        self.offset = offset


async def test_nothing_is_acknowledged_so_no_offset_is_committed() -> None:
    """Cases FST-02, FST-05 and FST-26: a list of acknowledged offsets may have holes, repeats and commits that fail; it
    stays empty. Offsets go with the decisions, in transactions of the lease."""
    app = _make_app(KafkaSettings(bootstrap_servers="127.0.0.1:1"), "group")
    _feed(app, "requests", cast(Any, None))
    (agent,) = app.agents.values()
    app.topics.add(agent.channel)
    await app.topics._update_indices()
    for offset in (1, 2, 2, 3, 4):
        assert not app.consumer.ack(_Message(offset))
    assert not app.consumer._acked
    assert not await app.consumer.commit()


async def test_it_has_no_transactions_no_tables_and_no_store() -> None:
    """Cases FST-16, FST-17 and FST-19: its transactions are not ours. Case FST-22: nor has it a RocksDB, whose lock a
    former owner of a partition could hold."""
    app = _make_app(KafkaSettings(bootstrap_servers="127.0.0.1:1"), "group")
    _feed(app, "requests", cast(Any, None))
    assert not app.in_transaction
    assert app.conf.processing_guarantee.name == "AT_LEAST_ONCE"
    assert (str(app.conf.store), dict(app.tables), app.conf.table_standby_replicas) == ("memory:", {}, 0)


async def test_it_waits_for_the_end_of_a_rebalance(consumer: Any) -> None:
    """Faust's fetcher does, by an event, when it comes for more while its flow is suspended."""
    consumer.stop_flow()
    asyncio.get_running_loop().call_soon(consumer.resume_flow)
    waited = await asyncio.wait_for(consumer.wait(consumer.can_resume_flow), PATIENCE_SECONDS)
    assert (waited.result, waited.stopped) == (True, False)


async def test_a_partition_whose_buffer_was_full_is_fetched_from(consumer: Any) -> None:
    tp = TP("requests", 3)
    consumer._set_active_tps({tp})
    consumer.on_buffer_full(tp)
    assert consumer._get_active_partitions() == {tp}
    consumer.on_buffer_drop(tp)
    assert consumer._get_active_partitions() == {tp}


async def test_what_waits_for_room_is_given_up_where_the_flow_is_suspended(consumer: Any) -> None:
    said: list[str] = []

    async def hand_over() -> None:
        said.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            said.append("cancelled")
            raise

    consumer.resume_flow()
    asyncio.get_running_loop().call_soon(consumer.stop_flow)
    waited = await asyncio.wait_for(consumer.wait_first(hand_over(), consumer.suspend_flow.wait()), PATIENCE_SECONDS)
    assert len(waited.done) == 1, "the suspension, and not what was handed over"
    await asyncio.sleep(0)
    assert said == ["begun", "cancelled"]


async def test_what_needs_no_wait_is_handed_over_and_leaves_nothing_behind(consumer: Any) -> None:
    said: list[str] = []

    async def hand_over(fails: bool) -> None:
        said.append("handed")
        if fails:
            raise LookupError("nothing there")

    consumer.resume_flow()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        waited = await consumer.wait_first(hand_over(fails=False), consumer.suspend_flow.wait())
        with pytest.raises(LookupError):
            await consumer.wait_first(hand_over(fails=True), consumer.suspend_flow.wait())
        gc.collect()
    assert (waited.results, waited.stopped) == ([None], False)
    assert said == ["handed", "handed"]
    assert not [each for each in told if "never awaited" in str(each.message)]


async def test_a_cancel_reaches_what_waits_for_room(consumer: Any) -> None:
    said: list[str] = []

    async def hand_over() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            said.append("left")

    consumer.resume_flow()
    task = asyncio.create_task(consumer.wait_first(hand_over(), consumer.suspend_flow.wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert said == ["left"]

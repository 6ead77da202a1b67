"""Intake by a Faust app: its consumer thread, its agent, its rebalancing; none of its acks, tables or producers.

What was measured decides what is used (docs/decisions/0002): stock Faust resumes before it seeks and books the hole as
a gap, acks an event whose handler raised, and commits offsets before its output is written. So this app acknowledges
nothing (`acks=False`, `noack()`), has no table, writes nothing, and its clients are made by us, with read_committed and
every other default set. Its agent only feeds the owners.
"""

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterable
from inspect import iscoroutine
from pathlib import Path
from typing import Any

import faust
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from faust.transport.drivers import aiokafka as driver
from mode.services import WaitResults
from yarl import URL

from admission.arrival import Arrival
from streams.errors import IntakeFailed
from streams.intake.base import IntakeHandler
from streams.intake.eager import begin
from streams.kafka.clients import group_consumer, idempotent_producer
from streams.kafka.membership import is_live_member
from streams.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

# Faust wants a folder and makes it; without tables nothing is written there, so one serves every process of a user.
_FOLDER = Path(tempfile.gettempdir()) / f"kiln-faust-{os.getuid()}"


class FaustIntake:
    """One Faust app, started and stopped in our own event loop: no Worker, no web server, no signal handlers."""

    def __init__(self, kafka: KafkaSettings, *, group: str, topic: str) -> None:
        self._kafka = kafka
        self._group = group
        self._topic = topic
        self._app: Any = None

    async def run(self, handler: IntakeHandler) -> None:
        """Raises IntakeFailed, with Faust's own reason as the cause, where the app crashed."""
        app = self._app = _make_app(self._kafka, self._group)
        _feed(app, self._topic, handler)
        try:
            await app.start()
            await app.wait_until_stopped()
        finally:
            await app.stop()
        if app.crash_reason is not None:
            raise IntakeFailed(f"Faust crashed: {app.crash_reason!r}; start admission again") from app.crash_reason

    async def is_live_member(self) -> bool:
        """Asks in the thread that owns the consumer, since a client belongs to its loop."""
        thread = getattr(getattr(self._app, "_consumer", None), "_thread", None)
        consumer = getattr(thread, "_consumer", None)
        if thread is None or consumer is None:
            return False
        asked = asyncio.run_coroutine_threadsafe(is_live_member(consumer), thread.thread_loop)
        return await asyncio.wrap_future(asked)

    async def stop(self) -> None:
        if self._app is not None:
            await self._app.stop()


def _make_app(kafka: KafkaSettings, group: str) -> Any:
    url = URL(f"kafka://{kafka.bootstrap_servers.split(',')[0]}")  # for Faust's own logs: we make the clients
    app = faust.App(
        group,
        broker=url,
        datadir=_FOLDER,
        store="memory://",
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        consumer_auto_offset_reset="earliest",
        # On a rebalance nothing is waited for: the owners let go by themselves (case FST-10).
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        stream_buffer_maxsize=1024,
        broker_session_timeout=kafka.session_timeout_ms / 1000,
        broker_heartbeat_interval=kafka.heartbeat_interval_ms / 1000,
        broker_rebalance_timeout=kafka.rebalance_timeout_ms / 1000,
        broker_request_timeout=max(kafka.request_timeout_ms, kafka.session_timeout_ms) / 1000,
        broker_max_poll_interval=kafka.max_poll_interval_ms / 1000,
        worker_redirect_stdouts=False,
        Monitor=_NoMonitor,
    )
    app.transport = _transport(kafka, group)([url], app)
    return app


def _feed(app: Any, topic: str, handler: IntakeHandler) -> None:
    requests = app.topic(
        topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", acks=False
    )

    async def assigned(_: Any, assigned: Iterable[Any], **__: Any) -> None:
        await handler.assigned({tp.partition for tp in assigned if tp.topic == topic})

    async def revoked(_: Any, revoked: Iterable[Any], **__: Any) -> None:
        await handler.revoked({tp.partition for tp in revoked if tp.topic == topic})

    async def intake(stream: Any) -> None:
        async for event in stream.noack().events():
            arrival = _arrival(event.message)
            await handler.feed(arrival.partition, (arrival,))

    app.on_partitions_assigned.connect(assigned)
    app.on_partitions_revoked.connect(revoked)
    app.agent(requests)(intake)


def _arrival(message: Any) -> Arrival:
    headers = message.headers or ()
    return Arrival(
        partition=message.partition,
        offset=message.offset,
        appended_ms=round(message.timestamp * 1000),  # Faust made it seconds
        key=message.key,
        value=message.value,
        headers=tuple(headers.items() if isinstance(headers, dict) else headers),
    )


class _NoMonitor(faust.Monitor):  # type: ignore[misc]
    """Faust counts and times each message; our own metrics tell what comes, and how long it takes."""

    def on_message_in(self, *_: Any) -> None: ...

    def on_stream_event_in(self, *_: Any) -> None: ...

    def on_stream_event_out(self, *_: Any) -> None: ...

    def on_message_out(self, *_: Any) -> None: ...


def _transport(kafka: KafkaSettings, group: str) -> type[Any]:
    """Faust's transport with our clients in it. Stock, its consumer reads uncommitted records, and neither takes our
    time-outs and credentials."""

    class Thread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
        def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
            self._assignor = RoundRobinPartitionAssignor
            return group_consumer(kafka, group, assignors=(RoundRobinPartitionAssignor,))

    class Consumer(driver.Consumer):  # type: ignore[misc]
        def _new_consumer_thread(self) -> Thread:
            return Thread(self, loop=self.loop, beacon=self.beacon)

        def on_buffer_full(self, tp: Any) -> None:
            """Faust would fetch no more of the partition, and after a burst it did so for ever. A full buffer holds
            back what fetches, and that is enough."""

        def on_buffer_drop(self, tp: Any) -> None: ...

        async def wait_first(self, *works: Any, timeout: float | None = None) -> WaitResults:
            """Faust hands each message over by this, and gives that up where the flow is suspended meanwhile: four
            tasks a message, which took longer than to decide it. Mostly handing it over waits for nothing.

            It also waits by this for events, as for the flow to be resumed after a rebalance."""
            first, *others = works
            if not all(map(iscoroutine, works)):
                return await super().wait_first(*works, timeout=timeout)
            begun = None
            try:
                begun = begin(first)
            finally:
                if begun is None:
                    for other in others:
                        other.close()
            if begun is None:
                return WaitResults([first], [None], stopped=False)
            return await super().wait_first(begun, *others, timeout=timeout)

    class Producer(driver.Producer):  # type: ignore[misc]
        def _new_producer(self, transactional_id: str | None = None) -> AIOKafkaProducer:
            assert transactional_id is None, "this app has no transactions: the lease has"
            return idempotent_producer(kafka)

    class Transport(driver.Transport):  # type: ignore[misc]
        pass

    Transport.Consumer = Consumer
    Transport.Producer = Producer
    return Transport

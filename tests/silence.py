"""Silence between the Kafka clients of this process and their broker: nothing passes, and nothing is closed."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from aiokafka import client, conn


class Network:
    """What each connection passes through. It runs in a thread of its own: the clients of several loops use it."""

    def __init__(self) -> None:
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._passes: asyncio.Event
        self._over: asyncio.Event

    def fall_silent(self) -> None:
        """Whoever connects is taken in, and hears nothing either."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def speak(self) -> None:
        """What was held back passes, and all after it."""
        self._loop.call_soon_threadsafe(self._passes.set)

    async def connect(self, host: str, port: int, **options: Any) -> Any:
        """Instead of aiokafka's own, which takes the brokers' addresses from the brokers."""
        opened = asyncio.run_coroutine_threadsafe(self._open(host, port), self._loop)
        return await conn.create_conn("127.0.0.1", await asyncio.wrap_future(opened), **options)

    async def _open(self, host: str, port: int) -> int:
        """A port for one connection to there."""

        async def carry(ours: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            server.close()
            theirs, out = await asyncio.open_connection(host, port)
            await asyncio.gather(self._carry(ours, out), self._carry(theirs, back))

        server = await asyncio.start_server(carry, "127.0.0.1", 0)
        ours: int = server.sockets[0].getsockname()[1]
        return ours

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                await self._passes.wait()
                sink.write(data)
                await sink.drain()
        sink.close()

    async def _run(self) -> None:
        self._loop, self._passes, self._over = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._passes.set()
        self._up.set()
        await self._over.wait()


@contextmanager
def network(patch: pytest.MonkeyPatch) -> Iterator[Network]:
    """All clients of aiokafka's that are made from now on speak through it."""
    made = Network()
    thread = threading.Thread(target=lambda: asyncio.run(made._run()), name="network", daemon=True)
    thread.start()
    assert made._up.wait(60)
    patch.setattr(client, "create_conn", made.connect)
    try:
        yield made
    finally:
        made._loop.call_soon_threadsafe(made._over.set)
        thread.join()

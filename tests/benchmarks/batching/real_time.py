"""The same arrivals in scaled real time: our engine in this process, and a peer's server over HTTP.

What is measured is the batching, from arrival to picture, and no transport: ours has neither Kafka nor HTTP here, so
the time that an empty request takes is taken off the peer's.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from statistics import median

import aiohttp

from gpu_consumer.engine.protocol import Ended, Picture, Pulse
from gpu_consumer.engine.virtual.clock import VirtualClock
from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.engine.virtual.engine import VirtualEngine
from gpu_consumer.memory import quantile_of
from tests.benchmarks.batching.baselines import Knobs
from tests.benchmarks.batching.front import Front
from tests.benchmarks.batching.ours import AHEAD, configs
from tests.benchmarks.batching.peers import Peer, Server
from tests.benchmarks.batching.workload import Job

_START_SECONDS = 90.0
_EMPTY_REQUESTS = 15


class ServerFailed(Exception):
    """The peer's server did not start or did not answer. One sentence."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Seconds of the device from each job's arrival to its picture, `floor` of them for a request without work."""

    latencies: tuple[float, ...]
    floor: float = 0.0

    @property
    def p95(self) -> float:
        """Without the floor."""
        return quantile_of(self.latencies, 0.95) - self.floor


class _Ours:
    """The scheduler and the engine, woken by arrivals and by what the engine says."""

    def __init__(self, jobs: Sequence[Job], bucket: int, scale: float) -> None:
        self.engine = VirtualEngine(VirtualDevice(), scale=scale)
        self._jobs = jobs
        self._scale = scale
        self._front = Front(configs(bucket), ahead=AHEAD)
        self._pulse = Pulse("nothing")
        self._began = 0.0
        self.latencies = [0.0] * len(jobs)

    async def run(self) -> None:
        await self.engine.start()
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._arrive())
            tasks.create_task(self._hear())
        self._front.check()
        await self.engine.stop()

    async def _arrive(self) -> None:
        for job in self._jobs:
            await asyncio.sleep(max(0.0, self._began + job.arrival * self._scale - time.monotonic()))
            self._front.add(job, self._now())
            await self._send()

    async def _hear(self) -> None:
        left = len(self._jobs)
        while left:
            for event in await self.engine.events():
                self._front.hear(event)
                if isinstance(event, Pulse):
                    self._pulse = event
                elif isinstance(event, Ended):
                    assert isinstance(event.outcome, Picture), event
                    number = int(event.key)
                    self.latencies[number] = self._now() - self._jobs[number].arrival
                    left -= 1
            await self._send()

    async def _send(self) -> None:
        for batch in self._front.sends(self._now(), self._pulse):
            await self.engine.submit(batch)

    def _now(self) -> float:
        """Seconds of the device since the first could arrive."""
        return (time.monotonic() - self._began) / self._scale


async def ours(jobs: Sequence[Job], bucket: int, scale: float) -> tuple[Seen, VirtualClock]:
    run = _Ours(jobs, bucket, scale)
    await run.run()
    return Seen(tuple(run.latencies)), run.engine.clock


async def theirs(peer: Peer, server: Server, jobs: Sequence[Job], knobs: Knobs, scale: float) -> Seen:
    """Raises ServerFailed."""
    no_limits = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=no_limits) as session:

        async def paint(steps: int) -> None:
            body = {"steps": [steps] if peer.wraps else steps}
            async with session.post(server.url, json=body) as response:
                if response.status != HTTPStatus.OK:
                    raise ServerFailed(f"{peer.name} answered {response.status}: {(await response.text())[:200]}")

        async def paint_at(job: Job) -> float:
            due = began + job.arrival * scale
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await paint(job.steps)
            return (time.monotonic() - due) / scale

        await _until_ready(peer, server, paint)
        for _ in range(peer.warm_requests):
            await paint(1)
        # One alone also waits for company, which is batching and no overhead.
        wait = 0.0 if peer.sets_own_wait else knobs.wait
        floor = max(0.0, median([await _timed(paint, 0) for _ in range(_EMPTY_REQUESTS)]) / scale - wait)
        began = time.monotonic()
        latencies = await asyncio.gather(*(paint_at(job) for job in jobs))
    return Seen(tuple(latencies), floor)


async def _until_ready(peer: Peer, server: Server, paint: Callable[[int], Awaitable[None]]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return await paint(0)
        except (aiohttp.ClientError, ServerFailed) as error:
            if not server.alive:
                raise ServerFailed(f"{peer.name} ended while it started; {server.log} says why") from error
            if time.monotonic() > deadline:
                raise ServerFailed(f"{peer.name} was not ready within {_START_SECONDS:g} s: {error}") from error
            await asyncio.sleep(0.2)


async def _timed(paint: Callable[[int], Awaitable[None]], steps: int) -> float:
    started = time.monotonic()
    await paint(steps)
    return time.monotonic() - started

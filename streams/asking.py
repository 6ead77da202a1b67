"""What admission would decide by at this moment, for a question: the world as it is followed, and one tenant's memory.

Everything is read anew and nothing is written. A tenant's memory is what the tenants topic says of it; what its
partition has of others is taken from what the partition tells.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from uuid import UUID

from aiokafka import TopicPartition

from admission.state import State
from admission.wait import Wait
from admission.world import World
from schemas.errors import CommandError
from schemas.partition import partition_of
from schemas.tenancy import JOB_PREFIX
from streams.cluster import Cluster
from streams.facts.control import ControlFact
from streams.facts.prices import PricesFact
from streams.facts.waits import WaitsFact
from streams.kafka.admin import require_topics
from streams.kafka.log import read_log
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics
from streams.settings import AdmissionServiceSettings
from streams.world import WorldView

_POLL_SECONDS = 0.02
_NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Present:
    """`state` knows the tenant alone. `silent` are the requests partitions that have told nothing of late: what waits
    in them is not counted."""

    world: World
    state: State
    silent: tuple[int, ...]


async def present(
    kafka: KafkaSettings, declared: World, settings: AdmissionServiceSettings, tenant: str, timeout_seconds: float = 15
) -> Present:
    """Raises CommandError where it is not all there in time, StateRefused where a record cannot be read, LogUnavailable
    where a topic is missing, and KafkaError where the cluster does not answer."""
    catalogue = declared.catalogue
    await require_topics(kafka, [catalogue.tenants, catalogue.control, catalogue.observations])
    metrics, cluster = AdmissionMetrics(), Cluster(kafka, catalogue)
    waits = WaitsFact(kafka, catalogue, cluster, settings, metrics)
    prices, control = PricesFact(kafka, catalogue), ControlFact(kafka, catalogue, declared.configs, metrics)
    view = WorldView(declared, cluster, (prices, control, waits))
    try:
        async with asyncio.timeout(timeout_seconds), cluster, view:
            await view.refresh()
            state = await _memory(kafka, declared, tenant)
            world = await _world(view, prices, waits)
            told = waits.demands()
            silent = tuple(each for each in range(catalogue.requests_partitions) if each not in told)
            return Present(replace(world, waits=_without(waits.now(), state)), state, silent)
    except TimeoutError as error:
        why = view.problem or "the pools' groups cannot be described"
        raise CommandError(f"no answer within {timeout_seconds:g} s: {why}") from error


async def _world(view: WorldView, prices: PricesFact, waits: WaitsFact) -> World:
    """Waits until everything is followed, what admission itself would not wait for included."""
    while True:
        if (world := view.current) is not None and prices.ready and waits.looked:
            return world
        await asyncio.sleep(_POLL_SECONDS)


async def _memory(kafka: KafkaSettings, declared: World, tenant: str) -> State:
    """The records of one tenant: its accounts and its jobs."""
    catalogue = declared.catalogue
    home = partition_of(tenant.encode(), catalogue.requests_partitions)
    state = State(home, declared.limits)
    async with aclosing(read_log(kafka, [TopicPartition(catalogue.tenants, home)])) as records:
        async for record in records:
            if _is_of(record.key or b"", record.value, tenant):
                state.fold_tenants(record.key or b"", record.value)
    state.opened(lambda: _NOBODY, 0, None, time.time_ns() // 1_000_000)
    return state


def _is_of(key: bytes, value: bytes | None, tenant: str) -> bool:
    """A job's record names its tenant; a tombstone names nobody, and takes away what may not be there."""
    if key.startswith(JOB_PREFIX):
        return value is None or b'"tenant":"%s"' % tenant.encode() in value
    return key == tenant.encode() or key.startswith(tenant.encode() + b"/")


def _without(waits: Mapping[str, Wait], state: State) -> dict[str, Wait]:
    """Less the tenant's own jobs, which its partition has told too: they are counted as the state has them."""
    found = {}
    for pool, wait in waits.items():
        own = wait.told.get(state.partition, {})
        backlog = {
            lane: seconds - min(own.get(lane, 0.0), state.waiting.seconds(pool, lane))
            for lane, seconds in wait.backlog.items()
        }
        found[pool] = Wait(backlog, gpus=wait.gpus)
    return found

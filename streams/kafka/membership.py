"""Whether a consumer is a member of its group at this moment, by the group's own word.

aiokafka does not say so: `assignment()` still lists the partitions after the member was dropped, and a frozen process
wakes into that belief. This module looks into the client's private parts, and a test fails when they change.
"""

import asyncio

from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import KafkaError


async def is_live_member(consumer: AIOKafkaConsumer) -> bool:
    """Ask the group's coordinator with a heartbeat. True: a member of the current generation, no rebalance pending.

    Takes one round trip, and the session time-out at most; False when no answer came. A coordinator that does not know
    the member makes the consumer join again, as any heartbeat would. Call it from the consumer's own event loop: a
    client of another thread's loop must not be touched from here.

    The answer is about a moment that has passed. It keeps a woken zombie from fencing its successor; what makes a
    wrong answer harmless is the epoch of the lease.
    """
    coordinator = consumer._coordinator
    if not isinstance(coordinator, GroupCoordinator):
        return False
    generation = coordinator.generation
    if generation <= 0 or coordinator._rejoin_needed_fut.done() or coordinator._closing.done():
        return False
    try:
        async with asyncio.timeout(coordinator._session_timeout_ms / 1000):
            known = await coordinator._do_heartbeat()
    except (TimeoutError, KafkaError):
        return False
    # The answer "rebalancing" counts as a heartbeat, and asks for a rejoin.
    return bool(known) and coordinator.generation == generation and not coordinator._rejoin_needed_fut.done()

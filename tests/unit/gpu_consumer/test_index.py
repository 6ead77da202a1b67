"""Which changes share a transaction."""

import asyncio
from collections.abc import Callable
from typing import Any

from gpu_consumer.index import Index, finish
from streams.kafka.lease import Transaction
from streams.kafka.sending import Output
from streams.kafka.settings import KafkaSettings
from tests.kafka import POOL, small_catalogue


class FakeLease:
    void = False

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def transact(self, build: Callable[[], Transaction]) -> None:
        await asyncio.sleep(0)
        self.sizes.append(sum(len(output.value or b"") for output in build().outputs))


def index() -> tuple[Index, FakeLease]:
    made = Index(KafkaSettings(bootstrap_servers="127.0.0.1:1"), small_catalogue("t"), POOL, 0)
    lease: Any = FakeLease()
    made._lease = lease
    return made, lease


async def test_what_is_asked_for_at_once_is_written_at_once() -> None:
    made, lease = index()
    await asyncio.gather(*(made.write([finish("bulk", n)]) for n in range(300)))
    assert made.ledger("bulk").watermark == 300
    assert len(lease.sizes) <= 2


async def test_large_dead_letters_do_not_share_one_transaction() -> None:
    """It would not be through before its deadline; the lease would be void, and the same would come again."""
    made, lease = index()
    letter = Output("dead-letters", 0, None, b"x" * (1 << 20))
    await asyncio.gather(*(made.write([finish("bulk", n, letter)]) for n in range(40)))
    assert made.ledger("bulk").watermark == 40
    assert max(lease.sizes) < 12 << 20

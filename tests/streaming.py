"""What an engine says, for tests: gathered until what is awaited has been said."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from typing import TypeVar

from gpu_consumer.engine.protocol import Batch, Drawn, Ended, Engine, Event, Flaw, Item, Joined, Picture, Refused
from schemas.config import GenerationConfig

PATIENCE = 180  # seconds; a deadline, never a measurement

E = TypeVar("E")


class Heard:
    """All that `engine` said since this was made."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.events: list[Event] = []

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.events += await self._engine.events()

    async def until_ended(self, keys: Iterable[str]) -> None:
        wanted = set(keys)
        await self.until(lambda: wanted <= self.ended.keys())

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def joined(self) -> list[str]:
        return [key for event in self.of(Joined) for key in event.keys]

    @property
    def refused(self) -> list[str]:
        return [key for event in self.of(Refused) for key in event.keys]

    @property
    def drawn(self) -> list[str]:
        return [key for event in self.of(Drawn) for key in event.keys]

    @property
    def ended(self) -> dict[str, Ended]:
        ended = self.of(Ended)
        assert len({event.key for event in ended}) == len(ended), "something ended twice"
        return {event.key: event for event in ended}

    @property
    def pictures(self) -> dict[str, Picture]:
        return {key: one.outcome for key, one in self.ended.items() if isinstance(one.outcome, Picture)}

    @property
    def flaws(self) -> dict[str, Flaw]:
        return {key: one.outcome for key, one in self.ended.items() if isinstance(one.outcome, Flaw)}

    def place(self, kind: type[Joined] | type[Drawn] | type[Ended], key: str) -> int:
        """Where the event is that says so of `key`."""
        return next(
            n
            for n, event in enumerate(self.events)
            if isinstance(event, kind) and key in ((event.key,) if isinstance(event, Ended) else event.keys)
        )


async def run(engine: Engine, config: GenerationConfig, *items: Item) -> Heard:
    """Send `items`, and listen until all of them have ended."""
    heard = Heard(engine)
    await engine.submit(Batch(config, items))
    await heard.until_ended(item.key for item in items)
    return heard


def digests(heard: Heard) -> dict[str, str]:
    return {key: hashlib.sha256(picture.data).hexdigest() for key, picture in heard.pictures.items()}

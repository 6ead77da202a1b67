"""Drawing again, in an engine of its own."""

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, Ended, EngineDied, Flaw, Item, Picture, Refused
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.results import environment
from schemas.config import GenerationConfig
from schemas.errors import CommandError
from schemas.result import Environment


class Drawer:
    """An async context manager: the engine runs from its entry on. Raises CommandError where it does not."""

    def __init__(self, settings: EngineSettings, preload: Sequence[GenerationConfig] = ()) -> None:
        """`preload` is loaded and warm when it has been entered."""
        self._engine = EngineProcess(settings, preload)
        self._calls = 0
        self.environment = Environment(device="")

    async def __aenter__(self) -> Self:
        try:
            self.environment = environment(await self._engine.start())
        except (EngineDied, ModelUnavailable) as error:
            raise CommandError(f"the engine does not start: {error}", 2) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._engine.stop()

    async def regenerate(self, config: GenerationConfig, items: Sequence[Item], bucket: int) -> list[Picture | Flaw]:
        """In the order of `items`, padded to `bucket`, which may be smaller than the config's where memory ran out.

        Raises CommandError where the model is not here, cannot make it or the engine dies; the next call starts anew.
        """
        ended = await self.draw(config, items, bucket)
        return [one.outcome for one in ended if one.outcome is not None]

    async def draw(self, config: GenerationConfig, items: Sequence[Item], bucket: int) -> list[Ended]:
        """The same, with what each of them cost. None of them has left, so each has an outcome."""
        if not 1 <= bucket <= config.bucket:
            raise CommandError(
                f"it was drawn in a bucket of {bucket}, but {config.label} has none larger than {config.bucket}", 2
            )
        padded = GenerationConfig.model_validate({**config.model_dump(), "bucket": bucket})
        self._calls += 1  # a key is of one call, or what a former one left behind would be taken for this one's
        ours = [replace(item, key=f"{self._calls}/{n}") for n, item in enumerate(items)]
        made: dict[str, Ended] = {}
        try:
            if not self._engine.alive:
                await self._engine.start()
            for first in range(0, len(ours), bucket):
                await self._engine.submit(Batch(padded, tuple(ours[first : first + bucket])))
            while not all(item.key in made for item in ours):
                made |= await self._ended()
        except (EngineDied, ModelUnavailable) as error:
            raise CommandError(f"{config.label} cannot be drawn here: {error}", 2) from error
        return [made[item.key] for item in ours]

    async def _ended(self) -> dict[str, Ended]:
        """Who has ended since the last time. Raises ModelUnavailable, EngineDied."""
        events = await self._engine.events()
        for event in events:
            if isinstance(event, Refused) and any(key.startswith(f"{self._calls}/") for key in event.keys):
                raise ModelUnavailable(event.message)
        return {event.key: event for event in events if isinstance(event, Ended) and event.outcome is not None}

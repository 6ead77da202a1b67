"""The tokenizers of the models in force: those of models that came through control are read while admission runs."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from admission.tokens import TokenCounter
from admission.world import World
from schemas.catalogue import ConfigCatalogue
from streams.kafka.periodic import failure_of
from streams.metrics import AdmissionMetrics
from streams.tokenizers import more_counters, not_counted


class TokensFact:
    """For deployments that refuse by tokens. Whenever configurations change it looks, in a thread, for the folders of
    those models that it cannot count for; nothing is decided until it has, or a prompt that is refused here would enter
    elsewhere. What is not there, or cannot be read, is not counted. It stands behind what changes configurations."""

    name = "tokenizers"

    def __init__(self, folder: Path, declared: World, metrics: AdmissionMetrics) -> None:
        self._folder = folder
        self._metrics = metrics
        self._counters: Mapping[str, TokenCounter] = declared.tokens
        self._configs = declared.configs
        self._looking: asyncio.Task[None] | None = None
        self._current_at = time.monotonic()
        metrics.set("models_not_counted", len(not_counted(declared.configs, declared.tokens)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    @property
    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    @property
    def problem(self) -> str | None:
        return "the tokenizers of new configurations are being read" if self._is_looking else None

    @property
    def failure(self) -> Exception | None:
        return failure_of(self._looking)

    @property
    def age_seconds(self) -> float:
        return time.monotonic() - self._current_at if self._is_looking else 0.0

    def into(self, world: World) -> World:
        if world.configs is not self._configs and not self._is_looking:
            self._configs, self._current_at = world.configs, time.monotonic()
            self._looking = asyncio.create_task(self._look(world.configs), name=self.name)
        return replace(world, tokens=self._counters)

    async def _look(self, configs: ConfigCatalogue) -> None:
        self._counters = await asyncio.to_thread(more_counters, self._folder, configs, self._counters)
        self._metrics.set("models_not_counted", len(not_counted(configs, self._counters)))

"""An engine that takes its time, of a loop whose time is virtual."""

import asyncio
from random import Random
from typing import TYPE_CHECKING

from gpu_consumer.engine.protocol import Drawn, Ended, EngineDied, Share
from tests.scripted import ScriptedEngine

if TYPE_CHECKING:
    from tests.property.pool_model.member import Member

STEP_SECONDS = 0.2


class SteppedEngine(ScriptedEngine):
    """Takes its time: some steps a picture, then a while to encode it."""

    def __init__(self, member: "Member", random: Random) -> None:
        super().__init__()
        self._member, self._random = member, random
        self._steps: dict[str, int] = {}
        self._encoding: dict[str, Ended] = {}

    @property
    def jobs(self) -> set[str]:
        """That have a picture in a slot."""
        return {key.split("/")[0] for key in self._running}

    def die(self, why: str = "killed") -> None:
        if self.alive:
            charged = (*self._running, *self._encoding)
            self._encoding.clear()
            super().die(why)
            self._death = EngineDied(why, joined=charged)

    async def _work(self) -> None:
        try:
            await self._draw()
        except AssertionError as error:
            self._member.world.bugs.append(error)

    async def _draw(self) -> None:
        while self.alive:
            known = set(self._running)
            self._join()
            for key in [each for each in self._running if each not in known]:
                self._steps[key] = self._random.randint(1, 12)
                self._member.world.joined(self._member, key.split("/")[0])
            self._member.world.look_for_double_runs()
            await asyncio.sleep(STEP_SECONDS)
            if self.alive:
                self._step()

    def _step(self) -> None:
        if any(item.prompt.startswith("poison") for _, item in self._running.values()):
            self.die("killed by a picture")
            return
        for key in self._running:
            self._steps[key] -= 1
        whole = any(config.batching == "whole" for config, _ in self._running.values())
        drawn = [key for key in self._running if self._steps[key] <= 0]
        if whole and len(drawn) < len(self._running):
            return
        if drawn:
            self._say(Drawn(tuple(drawn)))
        for key in drawn:
            config, item = self._running.pop(key)
            self._encoding[key] = Ended(key, self._outcome(config, item), Share(gpu_seconds=self._random.random()))
            asyncio.get_running_loop().call_later(self._random.uniform(0.01, 0.5), self._encoded, key)

    def _encoded(self, key: str) -> None:
        if (ended := self._encoding.pop(key, None)) is not None:
            self._say(ended)

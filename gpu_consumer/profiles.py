"""A trace of the engine's next steps, for whoever asks the health port for one: POST /profile?steps=20."""

import asyncio

from aiohttp import web

from gpu_consumer.engine.protocol import DeviceEngine, EngineDied, Profiled

CONTENT_TYPE = "application/gzip"


class Profiles:
    """One trace at a time. For one loop."""

    def __init__(self, engine: DeviceEngine, *, steps_max: int, wait_seconds: float) -> None:
        self._engine = engine
        self._steps_max = steps_max
        self._wait_seconds = wait_seconds
        self._asked: asyncio.Future[Profiled] | None = None

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/profile", self._answer)]

    def take(self, profiled: Profiled) -> None:
        """The engine's answer. Nobody may be waiting for it any more."""
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(profiled)

    async def trace(self, steps: int) -> Profiled:
        """Wait for `steps` steps to be made. Raises EngineDied, and TimeoutError where so many do not come in time."""
        assert self._asked is None, "one at a time"
        self._asked = asyncio.get_running_loop().create_future()
        try:
            await self._engine.profile(steps)
            async with asyncio.timeout(self._wait_seconds):
                return await self._asked
        finally:
            self._asked = None

    async def _answer(self, request: web.Request) -> web.Response:
        wanted = request.query.get("steps", "20")
        steps = int(wanted) if wanted.isascii() and wanted.isdigit() else 0
        if not 1 <= steps <= self._steps_max:
            return web.Response(text=f"steps: a number from 1 to {self._steps_max}\n", status=400)
        if self._asked is not None:
            return web.Response(text="a trace is being taken for somebody else; ask again\n", status=409)
        try:
            profiled = await self.trace(steps)
        except EngineDied as death:
            return web.Response(text=f"{death}\n", status=503)
        except TimeoutError:
            return web.Response(
                text=f"{steps} steps were not made in {self._wait_seconds:g} s; send work, or ask for fewer\n",
                status=504,
            )
        return web.Response(body=profiled.trace, content_type=CONTENT_TYPE, headers={"X-Steps": str(profiled.steps)})

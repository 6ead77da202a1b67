"""The health page of a service: is it alive, is it ready, and its metrics."""

import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from schemas.errors import CommandError
from streams.metric import Labelled

_LOG = logging.getLogger(__name__)
_SHUTDOWN_SECONDS = 1.0  # for a scrape under way; a probe's answer is short

Check = Callable[[], str | None]


class HealthServer:
    """Serves /livez and /readyz as text and /metrics for Prometheus, over HTTP, without authentication.

    A check returns None where all is well, else a sentence that says what is wrong: the answer is then 503 with that
    sentence, and also where a check raises. Checks run in the event loop and must not block it: an answer that comes
    late is what tells a probe that the loop is stuck. `note` is what a person should know of a service that is ready,
    `setting` the name of the one that chose the port, `routes` what the service answers beside these.
    """

    def __init__(
        self,
        port: int,
        *,
        live: Check,
        ready: Check,
        registry: CollectorRegistry | Labelled,
        host: str = "127.0.0.1",
        setting: str = "the port's setting",
        note: Check = lambda: None,
        routes: Iterable[web.RouteDef] = (),
    ) -> None:
        self._host = host
        self._wanted_port = port
        self._setting = setting
        self._registry = registry
        app = web.Application()
        app.router.add_get("/livez", _page(live))
        app.router.add_get("/readyz", _page(ready, note))
        app.router.add_get("/metrics", self._metrics)
        app.add_routes(routes)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)

    @property
    def port(self) -> int:
        """The port in use, once started: port 0 takes any free one."""
        assert self._runner.addresses, "start the server first"
        port: int = self._runner.addresses[0][1]
        return port

    async def start(self) -> None:
        """Listen. Raises CommandError where the port is taken."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._wanted_port).start()
        except BaseException as error:
            await self._runner.cleanup()
            if not isinstance(error, OSError):
                raise
            at = f"{self._host}:{self._wanted_port}"
            raise CommandError(
                f"the health page cannot listen on {at} ({error.strerror}); set {self._setting}, 0 takes a free one"
            ) from error
        _LOG.info("health page on %s:%d", self._host, self.port)

    async def stop(self) -> None:
        """Close the port, then wait a second at most for answers under way. Harmless where nothing was started."""
        await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _page(check: Check, note: Check = lambda: None) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        try:
            wrong, said = check(), note()
        except Exception as error:
            _LOG.exception("a health check raised")
            wrong, said = f"the check itself failed: {error!r}", None
        well = f"ok; but {said}" if said else "ok"
        return web.Response(text=f"{wrong or well}\n", status=200 if wrong is None else 503)

    return answer

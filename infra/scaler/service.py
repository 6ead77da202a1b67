"""The external scaler as a process."""

import asyncio
import logging
from contextlib import AsyncExitStack

import grpc

from infra.scaler.externalscaler_pb2_grpc import add_ExternalScalerServicer_to_server
from infra.scaler.figures import Figures
from infra.scaler.metrics import ScalerMetrics
from infra.scaler.server import Answers
from infra.scaler.settings import ScalerSettings
from infra.scaling.threshold import item_seconds_of
from schemas.catalogue import ConfigCatalogue
from schemas.errors import CatalogueError, CommandError
from schemas.request import LANES
from schemas.topics import Catalogue
from streams.health import HealthServer
from streams.kafka.admin import require_topics
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_ASK_SECONDS, _ANSWER_SECONDS = 60, 20


class ScalerService:
    """One process. Any number may run: none of them keeps anything."""

    def __init__(
        self, settings: ScalerSettings, kafka: KafkaSettings, catalogue: Catalogue, configs: ConfigCatalogue
    ) -> None:
        self.settings = settings
        self.metrics = ScalerMetrics()
        self._kafka = kafka
        self._catalogue = catalogue
        item_seconds = {name: _item_seconds(catalogue, name, configs) for name in catalogue.pools}
        self.figures = Figures(settings, kafka, catalogue, item_seconds, self.metrics)
        self._starting: str | None = "the scaler is starting"
        self.port: int | None = None  # in use, once it is served
        self.health = HealthServer(
            settings.health_port,
            live=lambda: None,
            ready=self.not_ready,
            note=self.disbelief,
            registry=self.metrics.registry,
            host=settings.health_host,
            setting="KILN_SCALER_HEALTH_PORT",
        )

    def not_ready(self) -> str | None:
        """Which pool cannot be told of. KEDA then hears that there is no value, from whichever process it asks."""
        if self._starting is not None:
            return self._starting
        silent = [pool for pool in self._catalogue.pools if self.figures.current(pool) is None]
        return f"nothing is known of pool {silent[0]!r}; look at Kafka" if silent else None

    def disbelief(self) -> str | None:
        """Which pool's ledger cannot be right. What is told is still the best that is known."""
        return next(filter(None, map(self.figures.disbelieved, self._catalogue.pools)), None)

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set. Raises LogUnavailable where a topic is missing, KafkaError where no broker
        answers at the start, CommandError where a port is taken or a certificate cannot be used."""
        async with AsyncExitStack() as stack:
            await self.health.start()
            stack.push_async_callback(self.health.stop)
            await require_topics(self._kafka, self._topics())
            await stack.enter_async_context(self.figures.following())
            answers = Answers(self.figures, self._catalogue.pools, self.metrics, streams_max=self.settings.streams_max)
            server = server_of(answers, self.settings)
            self.port = self._listen(server)
            await server.start()
            _LOG.info("KEDA is answered on %s:%d", self.settings.host, self.port)
            self._starting = None
            try:
                await self._expose_until(stop)
            finally:
                self._starting = "the scaler is stopping"
                answers.close()
                await server.stop(self.settings.stop_grace_seconds)

    def _topics(self) -> list[str]:
        return [self._catalogue.observations] + [
            topic
            for pool in self._catalogue.pools
            for topic in (*(self._catalogue.work(pool, lane) for lane in LANES), self._catalogue.ledger(pool))
        ]

    def _listen(self, server: grpc.aio.Server) -> int:
        at = f"{self.settings.host}:{self.settings.port}"
        certfile, keyfile = self.settings.tls_certfile, self.settings.tls_keyfile
        try:
            if certfile is None or keyfile is None:
                return server.add_insecure_port(at)
            pair = (keyfile.read_bytes(), certfile.read_bytes())
            return server.add_secure_port(at, grpc.ssl_server_credentials([pair]))
        except (OSError, RuntimeError, ValueError) as error:
            raise CommandError(
                f"KEDA cannot be answered on {at} ({error}); look at KILN_SCALER_HOST, _PORT, _TLS_CERTFILE and "
                "_TLS_KEYFILE"
            ) from error

    async def _expose_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.figures.expose()
            self.figures.warn()
            try:
                async with asyncio.timeout(self.settings.look_seconds):
                    await stop.wait()
            except TimeoutError:
                continue


def server_of(
    answers: Answers,
    settings: ScalerSettings,
    *,
    ask_seconds: float = _ASK_SECONDS,
    answer_seconds: float = _ANSWER_SECONDS,
) -> grpc.aio.Server:
    """gRPC bounds streams and calls together, so it is given the sum: with streams bounded by themselves so much is
    left to calls, however many streams are open. A client whose node died says no word: it is asked after
    `ask_seconds` of silence, and its streams end where no answer comes, or they would pile up."""
    options = (
        ("grpc.keepalive_time_ms", int(ask_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", int(answer_seconds * 1000)),
        ("grpc.http2.ping_timeout_ms", int(answer_seconds * 1000)),  # or a minute passes, whatever the former says
        ("grpc.so_reuseport", 0),
    )
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=settings.calls_max + settings.streams_max)
    add_ExternalScalerServicer_to_server(answers, server)  # type: ignore[no-untyped-call]
    return server


def _item_seconds(catalogue: Catalogue, name: str, configs: ConfigCatalogue) -> float:
    """Until work was read: a replica for each job where nothing tells more."""
    pool = catalogue.pools[name]
    try:
        return item_seconds_of(pool, name, configs)
    except CatalogueError as error:
        _LOG.warning("%s; until then a job that cannot be read counts %g s", error, pool.scaling.wait_seconds)
        return pool.scaling.wait_seconds

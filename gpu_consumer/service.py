"""The GPU consumer as a process: what starts when, what a signal does, and what its exit status means."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress

from aiokafka.errors import KafkaError

from gpu_consumer.consumer import GpuConsumer
from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import DeviceEngine, Engine, EngineDied, Observed, Profiled, Ready
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.team import EngineTeam
from gpu_consumer.gpu.telemetry import GpuTelemetry
from gpu_consumer.measures import Measures
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.observations import Observations
from gpu_consumer.owner import CannotOpen
from gpu_consumer.pod import ApiServer, pod_of, telling_cost
from gpu_consumer.profiles import Profiles
from gpu_consumer.running.keeper import EngineUnusable
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreSettings, StoreUnavailable
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.outcomes import OutcomeStore
from gpu_consumer.telling import telling
from gpu_consumer.telling_steps import telling_steps
from gpu_consumer.watch import NoProgress
from schemas.catalogue import DEFAULT_CHANNEL, ConfigCatalogue, ConfigProblem
from schemas.config import GenerationConfig
from schemas.errors import CatalogueError, CommandError, told
from schemas.reference import config_ref
from schemas.request import ConfigRef
from schemas.tenants import Tenants
from schemas.topics import Catalogue
from streams.backoff import Backoff
from streams.health import HealthServer
from streams.kafka.errors import ViewFailed
from streams.kafka.settings import KafkaSettings
from streams.metric import Labelled
from streams.tracing import OFF, Tracing

_LOG = logging.getLogger(__name__)
_ENGINE_SECONDS = 1.0  # one that is idle ends at once
EXIT_ENGINE = 3  # the engine does not start, or died too often
EXIT_NO_PROGRESS = 4
EXIT_NO_LEASE = 5
_EXITS: tuple[tuple[type[Exception], int], ...] = (
    (EngineUnusable, EXIT_ENGINE),
    (NoProgress, EXIT_NO_PROGRESS),
    (CannotOpen, EXIT_NO_LEASE),
    (ViewFailed, 1),
    (KafkaError, 1),
)


def preload_list(wanted: str, pool: str, configs: ConfigCatalogue) -> tuple[GenerationConfig, ...]:
    """What `wanted` names: `stable`, or configurations by commas. Raises CatalogueError where there is none."""
    if wanted.strip() == DEFAULT_CHANNEL:
        return _once(_stable(pool, configs))
    named: list[GenerationConfig] = []
    for label in filter(None, map(str.strip, wanted.split(","))):
        try:
            found = configs.choices(config_ref(label))
        except CommandError as error:
            raise CatalogueError(f"KILN_GPU_PRELOAD: {error}") from error
        if isinstance(found, ConfigProblem):
            raise CatalogueError(f"KILN_GPU_PRELOAD: {found.message}")
        named += [choice.config for choice in found]
    return _once(named)


def _once(configs: Iterable[GenerationConfig]) -> tuple[GenerationConfig, ...]:
    return tuple({config.label: config for config in configs}.values())


def served(pool: str, configs: ConfigCatalogue) -> Iterator[GenerationConfig]:
    """Every version whose work a consumer of this pool may be given."""
    for _, file in sorted(configs.files.items()):
        yield from (config for config in file.versions.values() if config.pool == pool and not config.retired)


def _stable(pool: str, configs: ConfigCatalogue) -> Iterator[GenerationConfig]:
    for _, file in sorted(configs.files.items()):
        if DEFAULT_CHANNEL not in file.channels:
            continue
        found = configs.choices(ConfigRef(name=file.name))
        if not isinstance(found, ConfigProblem):
            yield from (choice.config for choice in found if choice.config.pool == pool)


def make_engine(settings: GpuConsumerSettings, engine: EngineSettings, preload: tuple[GenerationConfig, ...]) -> Engine:
    if settings.engine == "instant":
        return InstantEngine()
    if settings.workers > 1:
        return EngineTeam(engine, preload, workers=settings.workers)
    return EngineProcess(engine, preload)


class GpuService:
    """One process. `run` it once."""

    def __init__(
        self,
        settings: GpuConsumerSettings,
        kafka: KafkaSettings,
        catalogue: Catalogue,
        engine: Engine,
        store: StoreSettings,
        telemetry: GpuTelemetry | None = None,
        tenants: Tenants | None = None,
        tracing: Tracing = OFF,
    ) -> None:
        if settings.pool not in catalogue.pools:
            known = ", ".join(sorted(catalogue.pools))
            raise CatalogueError(f"there is no pool {settings.pool!r}; set KILN_GPU_POOL to one of: {known}")
        self._settings = settings
        self._engine = engine
        self._outcomes = OutcomeStore(open_store(store.url, store))
        self._kafka = kafka
        self._catalogue = catalogue
        self.metrics = GpuMetrics()
        self.consumer = GpuConsumer(
            settings, kafka, catalogue, engine, self._outcomes, self.metrics,
            tenants=tenants, tracing=tracing, aside=self._heard,
        )  # fmt: skip
        self._tracing = tracing
        self._telemetry = telemetry
        if telemetry is not None:
            self.metrics.registry.register(telemetry)
        self._measures: Measures | None = None
        self._untold: Callable[[], Exception | None] = lambda: None
        self._profiles = (
            Profiles(engine, steps_max=settings.profile_steps_max, wait_seconds=settings.profile_seconds_max)
            if isinstance(engine, DeviceEngine) and settings.profile_steps_max
            else None
        )
        self._starting: str | None = "the store is being looked at"
        self.health = HealthServer(
            settings.health_port,
            live=self._not_alive,
            ready=self._unready,
            registry=Labelled(self.metrics.registry, {"pool": settings.pool}),
            host=settings.health_host,
            setting="KILN_GPU_HEALTH_PORT",
            routes=self._profiles.routes() if self._profiles else (),
        )

    def _not_alive(self) -> str | None:
        """What is wrong, where only a restart helps; it drains first."""
        failure = None if self._measures is None else self._measures.failure
        if failure is not None:
            return f"what batches take is exchanged no more ({failure!r}); this is a defect, and a restart mends it"
        if (failure := self._untold()) is not None:
            return (
                f"the hours of this consumer are told no more ({failure!r}); this is a defect, and a restart mends it"
            )
        return self.consumer.live()

    def _unready(self) -> str | None:
        card = self._telemetry.unready() if self._telemetry is not None else None
        return self._starting or card or self.consumer.ready()

    def _heard(self, event: Observed | Profiled) -> None:
        if isinstance(event, Observed) and self._measures is not None:
            self._measures.note(event)
        elif isinstance(event, Profiled) and self._profiles is not None:
            self._profiles.take(event)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set and all is drained. The group is joined when the engine is loaded and warm.

        Raises CommandError, whose code says what the supervisor may do about it.
        """
        if self._telemetry is not None:
            self._telemetry.start()
        try:
            await self.health.start()
            async with telling(
                self._kafka, self._catalogue.uptime, self.consumer.spending, self.consumer.incarnation,
                period_seconds=self._settings.uptime_seconds,
            ) as self._untold:  # fmt: skip
                ready = await self._start(stop)
                if ready is not None:
                    self._starting = None
                    await self._work(ready, stop)
        finally:
            # The grace is over for what runs: an engine in the middle of a batch is killed, not waited for.
            with suppress(TimeoutError):
                async with asyncio.timeout(_ENGINE_SECONDS):
                    await self._engine.stop()
            await self.consumer.close()
            await self._tracing.close()
            await self.health.stop()
            if self._telemetry is not None:
                await asyncio.to_thread(self._telemetry.stop)

    async def _start(self, stop: asyncio.Event) -> Ready | None:
        """None: stopped before everything was there. Loading may take minutes; a signal does not wait for it."""
        starting = asyncio.create_task(self._prepare())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return starting.result() if starting.done() else None
        except (EngineDied, ModelUnavailable) as error:
            raise CommandError(f"the engine does not start: {error}", EXIT_ENGINE) from error
        finally:
            starting.cancel()
            stopping.cancel()
            await asyncio.wait({starting, stopping})

    async def _prepare(self) -> Ready:
        backoff = Backoff(self._settings.store_backoff_seconds_min, self._settings.store_backoff_seconds_max)
        while True:
            try:
                await asyncio.to_thread(self._outcomes.probe)
            except StoreUnavailable as error:
                self._starting = f"the store: {error}"
                _LOG.warning("%s", self._starting)
                await asyncio.sleep(backoff.next())
            else:
                break
        self._starting = "the engine is loading and warming its models"
        ready = await self._engine.start()
        if self._telemetry is not None:
            self._telemetry.follow(ready.device.uuid)
        seconds = sum(ready.timings.values())
        _LOG.info("the engine runs on %s, loaded and warm after %.1f s", ready.device.product, seconds)
        return ready

    async def _work(self, ready: Ready, stop: asyncio.Event) -> None:
        try:
            pod, seconds = pod_of(self._settings, ApiServer()), self._settings.deletion_cost_seconds
            async with (
                self._measuring(ready.device.product),
                telling_cost(pod, lambda: self.consumer.left_seconds, self.metrics, seconds=seconds),
                telling_steps(
                    self._kafka,
                    self._catalogue,
                    self.consumer.steps,
                    self.metrics,
                    period_seconds=self._settings.progress_seconds,
                ),
            ):
                await self.consumer.run(ready, stop)
        except ExceptionGroup as group:
            for kind, code in _EXITS:
                if (known := group.subgroup(kind)) is not None:
                    raise CommandError(_first(known, self._kafka), code) from group
            raise

    @asynccontextmanager
    async def _measuring(self, device: str) -> AsyncIterator[None]:
        """What batches take is shared with others of the same device; an engine without memory has nothing to share."""
        if not isinstance(self._engine, DeviceEngine):
            yield
            return
        period = self._settings.observe_seconds
        observations = Observations(
            self._kafka, self._catalogue.observations, device, pool=self._settings.pool, period_seconds=period
        )
        self._measures = Measures(self._engine, observations, period_seconds=period)
        async with self._measures.running():
            yield


def _first(group: ExceptionGroup[Exception], kafka: KafkaSettings) -> str:
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return kafka.unanswered(told(error)) if isinstance(error, KafkaError) else told(error)

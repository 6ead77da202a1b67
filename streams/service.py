"""The admission service: everything that must run beside each other, and the order in which it starts and stops."""

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from itertools import product
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from admission.world import World
from streams.cluster import Cluster
from streams.emission import Emission
from streams.errors import IntakeFailed
from streams.facts.base import Fact
from streams.facts.cancels import CancelsFact
from streams.facts.control import ControlFact
from streams.facts.policies import PoliciesFact
from streams.facts.prices import PricesFact
from streams.facts.secrets import SecretsFact
from streams.facts.tokens import TokensFact
from streams.facts.waits import WaitsFact
from streams.health import HealthServer
from streams.holding import Surroundings
from streams.intake.base import Intake
from streams.kafka.groups import INDEX_PROTOCOL
from streams.kafka.renewal import OUTCOMES, Renewals
from streams.kafka.settings import KafkaSettings
from streams.kafka.stable import StableWatch
from streams.metrics import AdmissionMetrics
from streams.owners import Owners
from streams.placing import PLACED_BY, Placing
from streams.progress import ProgressWatch
from streams.settings import AdmissionServiceSettings
from streams.telling import Telling
from streams.tracing import OFF, Tracing
from streams.world import WorldView

log = logging.getLogger(__name__)


class AdmissionService:
    """One process of admission. Any number may run: the group spreads the partitions over them."""

    def __init__(
        self,
        settings: AdmissionServiceSettings,
        kafka: KafkaSettings,
        declared: World,
        intake: Intake,
        tracing: Tracing = OFF,
    ) -> None:
        self.settings = settings
        self.metrics = AdmissionMetrics()
        self._groups = [declared.catalogue.gpu_group(pool) for pool in declared.catalogue.pools]
        for group, outcome in product(self._groups, OUTCOMES):
            self.metrics.count("offset_renewals_total", 0, group=group, outcome=outcome)  # so that the first is a rise
        self._kafka = kafka
        self._declared = declared
        self._intake = intake
        self._tracing = tracing
        self._watch: ProgressWatch[int] = ProgressWatch(settings.stall_seconds)
        self._stable = StableWatch()
        self._ends_at = time.monotonic()
        self._world: WorldView | None = None
        self._policies = PoliciesFact(
            declared.policies, self.metrics, settings.policy_slow_seconds, settings.refresh_seconds
        )
        self._owners: Owners | None = None
        self._telling: Telling | None = None
        self._starting = True
        self.health = HealthServer(
            settings.health_port,
            live=self.not_alive,
            ready=self.not_ready,
            registry=self.metrics.registry,
            host=settings.health_host,
            setting="KILN_ADMISSION_SERVICE_HEALTH_PORT",
            note=self.note,
        )

    def not_alive(self) -> str | None:
        """What is wrong, where only a restart helps."""
        return self._watch.stalled(time.monotonic())

    def not_ready(self) -> str | None:
        """What keeps requests from being decided here, or would if one came."""
        if self._starting or self._world is None or self._owners is None:
            return "admission is starting or stopping"
        return self._world.problem or self._owners.problem or self._world.silence

    def note(self) -> str | None:
        """What a person should know although requests are decided."""
        return self._policies.note

    async def run(self, stop: asyncio.Event) -> None:
        """Decide until `stop` is set, then hand over within settings.stop_grace_seconds.

        Raises KafkaError where no broker answers at the start, and what ended an owner, a view or the intake.
        """
        settings, catalogue = self.settings, self._declared.catalogue
        async with AsyncExitStack() as stack:
            # First, so that a probe learns why the rest is not there yet; closed last.
            await self.health.start()
            stack.push_async_callback(self.health.stop)
            stack.push_async_callback(self._tracing.close)
            cluster = await stack.enter_async_context(Cluster(self._kafka, catalogue))
            facts: list[Fact] = [
                CancelsFact(self._kafka, catalogue),
                PricesFact(self._kafka, catalogue),
                self._policies,
                ControlFact(self._kafka, catalogue, self._declared.configs, self.metrics),
                SecretsFact(settings.signing_keys, self._declared.tenants, settings.refresh_seconds),
                waits := WaitsFact(self._kafka, catalogue, cluster, settings, self.metrics),
            ]
            if self._declared.limits.prompt_tokens == "refuse":
                facts.append(TokensFact(settings.tokenizers, self._declared, self.metrics))
            world = self._world = await stack.enter_async_context(WorldView(self._declared, cluster, facts))
            await world.refresh()
            emission = Emission(
                self._kafka,
                catalogue,
                self.metrics,
                timeout_seconds=settings.emission_timeout_seconds,
                backoff_seconds_max=settings.emission_backoff_seconds_max,
            )
            stack.push_async_callback(emission.close)
            telling = self._telling = Telling(self._kafka, catalogue.observations, settings, waits.rates_before)
            await stack.enter_async_context(telling)
            owners = self._owners = Owners(
                Surroundings(
                    settings=settings,
                    kafka=self._kafka,
                    declared=self._declared,
                    world=world,
                    cluster=cluster,
                    emission=emission,
                    telling=telling,
                    placing=Placing(
                        catalogue, waits.demands, seconds=settings.placing_seconds, bounds=settings.placing_bounds
                    ),
                    metrics=self.metrics,
                    tracing=self._tracing,
                    is_live_member=self._intake.is_live_member,
                )
            )
            renewals = Renewals(
                self._kafka,
                self._groups,
                [INDEX_PROTOCOL],
                seconds=settings.renew_offsets_seconds,
                renewed=lambda group, outcome: self.metrics.count(
                    "offset_renewals_total", group=group, outcome=outcome
                ),
            )
            await stack.enter_async_context(
                renewals.running(lambda: any(each.partition == PLACED_BY for each in owners.owners))
            )
            await self._run_until(stop, owners, world, cluster, emission)

    async def _run_until(
        self, stop: asyncio.Event, owners: Owners, world: WorldView, cluster: Cluster, emission: Emission
    ) -> None:
        intake = asyncio.create_task(self._intake.run(owners), name="intake")
        looking = asyncio.create_task(self._look_around(owners, world, cluster, emission), name="look around")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        self._starting = False
        try:
            awaited: set[asyncio.Future[Any]] = {intake, looking, stopped, owners.failure}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if owners.failure.done():
                raise owners.failure.result()
            for task in (intake, looking):
                if task.done():
                    task.result()
                    raise IntakeFailed(f"the {task.get_name()} task ended by itself; start admission again")
        finally:
            await self._shut_down(owners, intake, looking, stopped)

    async def _shut_down(
        self, owners: Owners, intake: asyncio.Task[None], looking: asyncio.Task[None], stopped: asyncio.Task[bool]
    ) -> None:
        """In this order: take nothing more; finish the batches under way and close the leases, while we are still a
        member and nobody else opens them; leave the group, so that others take over at once. What the grace does not
        suffice for is cut off, and the next owner's fence decides it."""
        self._starting = True
        try:
            async with asyncio.timeout(self.settings.stop_grace_seconds):
                await owners.close()
                await self._intake.stop()
        except TimeoutError:
            log.warning("stopping took longer than %.0f s and is cut off", self.settings.stop_grace_seconds)
        finally:
            for task in (intake, looking, stopped):
                task.cancel()
            await asyncio.wait({intake, looking, stopped})

    async def _look_around(self, owners: Owners, world: WorldView, cluster: Cluster, emission: Emission) -> None:
        """Topics, lag, ages and progress, every settings.refresh_seconds. Ends by the failure of a view, or of what is
        told to others."""
        while (failure := self._failure(world)) is None:
            await world.refresh()
            self._count_partitions(owners)
            try:
                await self._look_at_lag(owners, world, cluster, emission)
                await self._look_for_open_transactions(owners, cluster)
                self._ends_at = time.monotonic()
            except (KafkaError, OSError):
                self._watch.keep(set())  # a broker that is down is not this process's fault: a restart does not help
            now = time.monotonic()
            self.metrics.set("stalled_seconds", self._watch.stalled_seconds(now))
            for view, age in (world.ages() | {"ends": now - self._ends_at}).items():
                self.metrics.set("view_age_seconds", age, view=view)
            await asyncio.sleep(self.settings.refresh_seconds)
        raise failure

    def _failure(self, world: WorldView) -> Exception | None:
        return world.failure or (None if self._telling is None else self._telling.failure)

    async def _look_at_lag(self, owners: Owners, world: WorldView, cluster: Cluster, emission: Emission) -> None:
        ends = await cluster.log_ends([owner.partition for owner in owners.owners])
        waiting_for = world.problem or emission.problem
        for owner in list(owners.owners):
            if owner.next is None or owner.partition not in ends:
                continue
            lag = max(0, ends[owner.partition] - owner.next)
            self.metrics.set("lag", lag, partition=str(owner.partition))
            waits = owner.problem or waiting_for
            self._watch.look(owner.partition, owner.next, lag, waits, time.monotonic())
        owned = {owner.partition for owner in owners.owners}
        self._watch.keep(owned)

    def _count_partitions(self, owners: Owners) -> None:
        open_ = sum(owner.problem is None for owner in owners.owners)
        self.metrics.set("partitions", open_, state="open")
        self.metrics.set("partitions", len(list(owners.owners)) - open_, state="opening")

    async def _look_for_open_transactions(self, owners: Owners, cluster: Cluster) -> None:
        catalogue = self._declared.catalogue
        topics = (catalogue.requests, catalogue.decisions, catalogue.tenants, catalogue.results)
        owned = [TopicPartition(topic, owner.partition) for topic in topics for owner in owners.owners]
        stable, ends = await cluster.stability(owned) if owned else ({}, {})
        now = time.monotonic()
        self._stable.look(stable, ends, now)
        for topic, worst in self._stable.worst(topics, now):
            self.metrics.set("unstable_records", worst.records, topic=topic)
            self.metrics.set("unstable_seconds", worst.seconds, topic=topic)

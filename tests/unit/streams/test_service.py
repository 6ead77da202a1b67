"""The admission service over doubles: what its liveness says of others' faults."""

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from admission.world import World as DeclaredWorld
from streams.intake.base import Intake
from streams.kafka.settings import KafkaSettings
from streams.owners import Owners
from streams.service import AdmissionService
from streams.settings import AdmissionServiceSettings
from streams.world import WorldView
from tests.unit.admission.scene import make_world


class SilentCluster:
    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def log_ends(self, _: Any) -> Any:
        self.asked.set()
        raise KafkaConnectionError("no broker answers")


class World:
    failure = None
    problem = None

    async def refresh(self) -> None: ...

    def ages(self) -> dict[str, float]:
        return {}


def unstarted(world: DeclaredWorld | None = None, **settings: float) -> AdmissionService:
    """No broker answers it, and its tests call what it would do by itself."""
    return AdmissionService(
        AdmissionServiceSettings(health_port=0, **cast(Any, settings)),
        KafkaSettings(bootstrap_servers="127.0.0.1:1"),
        make_world() if world is None else world,
        cast(Intake, None),
    )


async def test_a_broker_that_is_down_is_no_reason_to_restart_admission() -> None:
    service = unstarted()
    service._watch.look(0, 17, lag=2, waiting_for=None, now=time.monotonic() - 1000)
    assert service.not_alive() is not None
    cluster = SilentCluster()
    owners = Owners(cast(Any, None))
    looking = asyncio.create_task(service._look_around(owners, cast(Any, World()), cast(Any, cluster), cast(Any, None)))
    await cluster.asked.wait()
    await asyncio.sleep(0)
    assert service.not_alive() is None
    looking.cancel()
    await asyncio.wait({looking})


async def test_who_owns_nothing_says_too_that_no_broker_answers() -> None:
    """Case AIO-13: what was seen of the topics stands meanwhile."""
    service = unstarted()
    answers = iter([True, False, True])

    async def partition_counts() -> dict[str, int]:
        if not next(answers):
            raise KafkaConnectionError("nobody there")
        return {spec.name: spec.partitions for spec in make_world().catalogue.specs()}

    cluster: Any = SimpleNamespace(partition_counts=partition_counts)
    world = service._world = WorldView(make_world(), cluster, [])
    service._owners, service._starting = Owners(cast(Any, None)), False
    await service._owners.assigned(set())
    said = []
    for _ in range(3):
        await world.refresh()
        said.append(service.not_ready())
        assert world.current is not None
    assert said == [None, "topics cannot be listed (nobody there); look at the broker", None]


class Telling:
    failure = RuntimeError("a defect")


async def test_admission_ends_when_nothing_is_told_any_more() -> None:
    service = unstarted()
    service._telling = cast(Any, Telling())
    with pytest.raises(RuntimeError, match="a defect"):
        await service._look_around(cast(Any, None), cast(Any, World()), cast(Any, None), cast(Any, None))


class Broken:
    """A policy whose file was changed to one that cannot be used."""

    problem = None

    def refresh(self) -> None:
        raise OSError(2, "No such file or directory")


async def test_what_is_judged_by_an_old_policy_is_told_by_a_page_that_is_ready() -> None:
    service = unstarted(replace(make_world(), policies={"list": cast(Any, Broken())}), refresh_seconds=0.001)
    assert service.note() is None
    async with service._policies, asyncio.timeout(60):
        while True:
            if service.note() is not None:
                break
            await asyncio.sleep(0.001)
    assert service.note() == "the content policy 'list' is as it was before: No such file or directory"


class OpenTransaction:
    """Two requests wait, and two records of every partition cannot be read yet."""

    async def log_ends(self, partitions: list[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, 5)

    async def stability(self, partitions: list[TopicPartition]) -> tuple[dict[TopicPartition, int], ...]:
        return dict.fromkeys(partitions, 10), dict.fromkeys(partitions, 12)


class Leaving(OpenTransaction):
    """Answers once. What was told then has run out before it is asked again."""

    def __init__(self, service: AdmissionService) -> None:
        self.asked_again = asyncio.Event()
        self._service = service
        self._asked = 0

    async def log_ends(self, partitions: list[int]) -> dict[int, int]:
        self._asked += 1
        if self._asked == 1:
            return await super().log_ends(partitions)
        if self._asked > 2:
            self.asked_again.set()
        self._service.metrics.forget("lag", partition="0")
        self._service.metrics.forget("unstable_records", topic="kiln.results")
        self._service._ends_at = time.monotonic() - 900
        raise KafkaConnectionError("no broker answers")


async def test_what_a_broker_that_is_away_told_last_is_not_told_anew() -> None:
    """Neither as lag nor as a transaction that is open or not. How long it is away is told."""
    service = unstarted(refresh_seconds=0.01)
    owners = SimpleNamespace(owners=[SimpleNamespace(partition=0, next=3, problem=None)])
    cluster, others = Leaving(service), cast(Any, SimpleNamespace(problem=None))
    looking = asyncio.create_task(
        service._look_around(cast(Any, owners), cast(Any, World()), cast(Any, cluster), others)
    )

    def told(name: str, **labels: str) -> float | None:
        found: float | None = service.metrics.registry.get_sample_value(f"kiln_admission_{name}", labels)
        return found

    await asyncio.wait_for(cluster.asked_again.wait(), 60)
    looking.cancel()
    await asyncio.wait({looking})
    assert told("lag", partition="0") is told("unstable_records", topic="kiln.results") is None
    assert (told("view_age_seconds", view="ends") or 0) >= 900
    # What is known without a broker goes on being told.
    owners.owners[0].problem = "its lease must be opened again"
    service._count_partitions(cast(Any, owners))
    assert (told("partitions", state="open"), told("partitions", state="opening")) == (0, 1)


class LookedAt(World):
    def __init__(self) -> None:
        self.done = asyncio.Event()

    def ages(self) -> dict[str, float]:
        self.done.set()
        return {}


async def test_what_stands_is_told() -> None:
    service = unstarted()
    at, long_ago = TopicPartition("kiln.results", 0), time.monotonic() - 1000
    service._watch.look(0, 3, lag=2, waiting_for=None, now=long_ago)
    service._stable.look({at: 10}, {at: 11}, long_ago)
    owners = SimpleNamespace(owners=[SimpleNamespace(partition=0, next=3, problem=None)])
    world, others = LookedAt(), cast(Any, SimpleNamespace(problem=None))
    looking = asyncio.create_task(
        service._look_around(cast(Any, owners), cast(Any, world), cast(Any, OpenTransaction()), others)
    )
    await asyncio.wait_for(world.done.wait(), 60)
    looking.cancel()
    await asyncio.wait({looking})

    def told(name: str, **labels: str) -> float:
        return service.metrics.registry.get_sample_value(f"kiln_admission_{name}", labels) or 0.0

    assert told("stalled_seconds") >= 1000
    assert told("unstable_seconds", topic=at.topic) >= 1000
    assert told("unstable_records", topic=at.topic) == told("unstable_records", topic="kiln.decisions") == 2


def test_what_may_come_of_a_renewal_is_told_at_nothing_from_the_beginning() -> None:
    """Else the first that went well would be no rise, and an alert would say that none did."""
    service = unstarted()
    for outcome in ("renewed", "in use", "nothing committed", "failed"):
        labels = {"group": "kiln.gpu.default", "outcome": outcome}
        assert service.metrics.registry.get_sample_value("kiln_admission_offset_renewals_total", labels) == 0

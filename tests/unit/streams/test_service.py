"""The admission service over doubles: what its liveness says of others' faults."""

import asyncio
import time
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaConnectionError

from streams.intake.base import Intake
from streams.kafka.settings import KafkaSettings
from streams.owners import Owners
from streams.service import AdmissionService
from streams.settings import AdmissionServiceSettings
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


async def test_a_broker_that_is_down_is_no_reason_to_restart_admission() -> None:
    service = AdmissionService(
        AdmissionServiceSettings(health_port=0),
        KafkaSettings(bootstrap_servers="127.0.0.1:1"),
        make_world(),
        cast(Intake, None),
    )
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


class Telling:
    failure = RuntimeError("a defect")


async def test_admission_ends_when_nothing_is_told_any_more() -> None:
    service = AdmissionService(
        AdmissionServiceSettings(health_port=0),
        KafkaSettings(bootstrap_servers="127.0.0.1:1"),
        make_world(),
        cast(Intake, None),
    )
    service._telling = cast(Any, Telling())
    with pytest.raises(RuntimeError, match="a defect"):
        await service._look_around(cast(Any, None), cast(Any, World()), cast(Any, None), cast(Any, None))


def test_what_may_come_of_a_renewal_is_told_at_nothing_from_the_beginning() -> None:
    """Else the first that went well would be no rise, and an alert would say that none did."""
    service = AdmissionService(
        AdmissionServiceSettings(health_port=0),
        KafkaSettings(bootstrap_servers="127.0.0.1:1"),
        make_world(),
        cast(Intake, None),
    )
    for outcome in ("renewed", "in use", "nothing committed", "failed"):
        labels = {"group": "kiln.gpu.default", "outcome": outcome}
        assert service.metrics.registry.get_sample_value("kiln_admission_offset_renewals_total", labels) == 0

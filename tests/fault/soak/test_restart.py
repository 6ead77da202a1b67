"""50,000 names and 50,000 requests waiting, and an owner that is killed at every point of its opening."""

import pytest

from admission.world import World
from streams.kafka.settings import KafkaSettings
from tests.integration.restarts import POINTS, restart
from tests.integration.test_restart import declared, environment

__all__ = ["declared", "environment"]

MANY = 50_000
READY_SECONDS_MAX = 60.0  # 20 s were seen on two cores that eighteen other processes wanted


@pytest.mark.timeout(1800)
async def test_a_deep_backlog_is_opened_in_bounded_time(
    kafka: KafkaSettings, declared: World, environment: dict[str, str]
) -> None:
    patient = environment | {"KAFKA_SESSION_TIMEOUT_MS": "10000", "KAFKA_HEARTBEAT_INTERVAL_MS": "3000"}
    seconds = await restart(kafka, declared, patient, names=MANY, waiting=MANY, points=POINTS)
    print(f"ready {seconds:.1f} s after its start")
    assert seconds < READY_SECONDS_MAX

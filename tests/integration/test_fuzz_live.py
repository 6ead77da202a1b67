"""Two thousand mutated records through the admission service on a broker. `make fuzz` sends two hundred thousand."""

from pathlib import Path

import pytest

from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.fuzz.live import Live
from tests.fuzz.service import live_catalogue


async def test_no_record_kills_the_process_blocks_a_partition_or_ends_twice(
    kafka: KafkaSettings, kafka_env: dict[str, str], prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue = live_catalogue(prefix)
    await create_topics(kafka, catalogue)
    live = Live(kafka, catalogue, kafka_env, tmp_path, seed=20)
    assert await live.run(2000) == []
    assert live.sent > 1900 > 20 * live.refused

"""What the gate shows of topics that come and go."""

from typing import Any

from aiokafka import TopicPartition

from schemas.pools import Pools
from schemas.topics import Catalogue, TopicSettings
from streams.gate.service import GateService
from streams.gate.settings import GateSettings
from streams.kafka.settings import KafkaSettings

TENANT = "atelier"


class Consumer:
    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        pass


async def test_the_lag_of_a_topic_that_another_gate_has_now_is_not_shown() -> None:
    catalogue = Catalogue(TopicSettings.model_construct(), Pools(pools={}), (TENANT,))
    gate = GateService(GateSettings(), KafkaSettings(bootstrap_servers="127.0.0.1:1"), catalogue)
    consumer: Any = Consumer()
    stays, leaves = (TopicPartition(catalogue.tenant_requests(TENANT), number) for number in (0, 1))

    def lag(tp: TopicPartition) -> float | None:
        labels = {"topic": tp.topic, "partition": str(tp.partition)}
        found: float | None = gate.metrics.registry.get_sample_value("kiln_gate_lag", labels)
        return found

    gate.assigned({stays, leaves})
    await gate._commit(consumer, {stays: 3, leaves: 4})
    gate._look({stays: 5, leaves: 5})
    assert (lag(stays), lag(leaves)) == (2, 1)
    gate.assigned({stays})
    await gate._commit(consumer, {stays: 4})
    gate._look({stays: 5})
    assert (lag(stays), lag(leaves)) == (1, None)

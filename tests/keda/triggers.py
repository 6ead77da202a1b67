"""The triggers that KEDA is given for a pool."""

from collections.abc import Mapping

from infra.scaling.threshold import lag_threshold
from schemas.request import LANES, Lane
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL


def threshold(pool: GpuPool) -> int:
    scaling = pool.catalogue.pools[POOL].scaling
    assert scaling.item_seconds is not None
    return lag_threshold(scaling.wait_seconds, scaling.item_seconds)


def kafka_triggers(pool: GpuPool) -> Mapping[Lane, Mapping[str, str]]:
    return {
        lane: {
            "bootstrapServers": pool.kafka.bootstrap_servers,
            "consumerGroup": pool.catalogue.gpu_group(POOL),
            "topic": pool.work(lane),
            "lagThreshold": str(threshold(pool)),
            "offsetResetPolicy": "earliest",
        }
        for lane in LANES
    }

"""Case AIO-13: a network that loses everything and closes nothing. Each service says so, and goes on when it is over.

What the external scaler says then: test_scaler_outage.py.
"""

import asyncio
from pathlib import Path

import pytest

from schemas.pools import Pools
from schemas.topics import Catalogue
from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.admission import eventually, produce, request, running, small_world
from tests.integration.gpu_pool import GpuPool
from tests.integration.test_who_may_speak import gate
from tests.silence import network

TENANT = "atelier"
IMPATIENT = {
    "request_timeout_ms": 2000,
    "stall_timeout_ms": 2000,
    "transaction_deadline_ms": 2000,
    "open_timeout_ms": 3000,
    "close_timeout_ms": 500,
    "backoff_most_ms": 500,
}


async def test_a_network_that_falls_silent_is_told_and_is_outlived(
    kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request is on its way when it begins: who only waits must notice, too."""
    gated = Catalogue(catalogue.settings, Pools(pools=catalogue.pools), [TENANT])
    await create_topics(kafka, gated)
    impatient = kafka.model_copy(update=IMPATIENT)

    async def send(request_id: str) -> None:
        wish = request(TENANT, request_id, request_id)
        await asyncio.to_thread(produce, kafka, gated.tenant_requests(TENANT), [(None, wish)])

    with network(monkeypatch) as between:
        async with (
            running(impatient, small_world(gated), "faust", reopen_backoff_seconds_max=0.5) as admission,
            gate(impatient, gated) as passing,
            GpuPool(impatient, gated, tmp_path / "store").consumer() as consumer,
        ):
            pages = {
                "admission": admission.not_ready,
                "the gate": passing.not_ready,
                "the consumer": consumer.consumer.ready,
            }

            async def all_say(*, ready: bool) -> None:
                for name, page in pages.items():
                    await eventually(lambda page=page: (page() is None) == ready, what=f"ready: {ready} of {name}")

            await all_say(ready=True)
            await send("before")
            await eventually(lambda: consumer.engine.seen and consumer.consumer.idle, what="a picture, settled")
            between.fall_silent()
            await all_say(ready=False)
            assert (admission.not_alive(), consumer.consumer.live()) == (None, None), "a restart would not help"
            await send("meanwhile")
            between.speak()
            await all_say(ready=True)
            await eventually(lambda: len(consumer.engine.seen) > 1, what="a picture of what came meanwhile")
    assert consumer.engine.seen == [["before"], ["meanwhile"]]

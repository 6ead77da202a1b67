"""What tests need of a real Kafka beside the fixtures: a catalogue of their own, and topics that go when they end."""

from collections.abc import Iterable

from aiokafka.admin import AIOKafkaAdminClient

from schemas.pools import Pool, Pools
from schemas.topics import Catalogue, TopicSettings
from streams.kafka.settings import KafkaSettings

POOL = "a"


def small_catalogue(
    prefix: str, *, requests_partitions: int = 2, work_partitions: int = 4, pools: Iterable[str] = (POOL,)
) -> Catalogue:
    """A deployment under `prefix` that is quick to create: few partitions, one pool."""
    pool = Pool(
        gpu_product="CPU",
        vram_bytes=8 << 30,
        price_usd_per_hour=1.0,
        replicas_max=max(1, work_partitions // 2),
        partitions=work_partitions,
    )
    settings = TopicSettings(prefix=prefix, requests_partitions=requests_partitions)
    return Catalogue(settings, Pools(pools=dict.fromkeys(pools, pool)))


async def delete_topics(kafka: KafkaSettings, prefix: str) -> None:
    """Delete every topic whose name begins with `prefix`: a broker slows down with each partition it keeps."""
    admin = AIOKafkaAdminClient(**kafka.client_options())
    await admin.start()
    try:
        mine = [name for name in await admin.list_topics() if name.startswith(prefix)]
        if mine:
            await admin.delete_topics(mine)
    finally:
        await admin.close()

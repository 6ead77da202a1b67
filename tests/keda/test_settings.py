"""Why our triggers say what they say: what KEDA's own code makes of the other settings, on the same group."""

import pytest

from infra.scaler.service import ScalerService
from schemas.codec import encode
from streams.kafka.clients import transactional_producer
from tests.integration.gpu_pool import GpuPool, eventually, work_item
from tests.kafka import POOL
from tests.keda.offsets import commit
from tests.keda.probing import Probe, ScalerError
from tests.keda.triggers import kafka_triggers, push_trigger
from tests.scripted import ScriptedEngine


async def opened(probe: Probe, pool: GpuPool, name: str, **changes: str | None) -> None:
    """The trigger of the lane standard, with other settings. None takes one away."""
    metadata = {**kafka_triggers(pool)["standard"], **changes}
    await probe.open(name, "kafka", {key: value for key, value in metadata.items() if value is not None})


async def test_only_earliest_sees_work_that_came_before_the_first_consumer(pool: GpuPool, probe: Probe) -> None:
    """Cases KEDA-16 and KEDA-02: `latest` reports one a partition for a new group, whatever waits."""
    await opened(probe, pool, "earliest")
    await opened(probe, pool, "latest", offsetResetPolicy="latest")
    assert await counted(probe, "earliest") == (0, False)
    assert await counted(probe, "latest") == (16, True)
    await pool.produce([work_item(f"job{n}") for n in range(40)])
    assert await counted(probe, "earliest") == (40, True)
    assert await counted(probe, "latest") == (16, True)


async def test_without_a_topic_every_topic_of_the_cluster_counts(pool: GpuPool, probe: Probe) -> None:
    await opened(probe, pool, "ours")
    await opened(probe, pool, "no-topic", topic=None)
    await pool.produce_raw([(pool.catalogue.progress, 0, b"blue", b"of no lane", ())])
    value, is_active = await counted(probe, "no-topic")
    assert value > 0
    assert is_active
    assert await counted(probe, "ours") == (0, False)


async def test_a_long_job_looks_idle_where_persistent_lag_is_excluded(pool: GpuPool, probe: Probe) -> None:
    """Case KEDA-10: the second poll without progress gives nothing, while the jobs run."""
    await opened(probe, pool, "ours")
    await opened(probe, pool, "excluding", excludePersistentLag="true")
    engine = ScriptedEngine()
    engine.gate.clear()
    await pool.produce([work_item(f"job{n}") for n in range(4)])
    async with pool.consumer(engine):
        await eventually(lambda: bool(engine.batches), "they run")
        readings = [await counted(probe, "excluding") for _ in range(2)]
        assert readings == [(4, True), (0, True)]
        assert [await counted(probe, "ours") for _ in range(2)] == [(4, True)] * 2


async def test_a_transaction_in_work_keeps_a_replica_unless_its_marker_is_passed(pool: GpuPool, probe: Probe) -> None:
    """Case KEDA-01: admission writes work outside of transactions; and a consumer of ours goes past a marker, too."""
    await opened(probe, pool, "ours")
    items = [work_item(f"job{n}") for n in range(16)]
    producer = transactional_producer(pool.kafka, f"{pool.catalogue.settings.prefix}.marking")
    await producer.start()
    async with producer.transaction():
        for partition, item in enumerate(items):
            await producer.send_and_wait(
                pool.work(), encode(item), key=item.job_id.encode(), partition=partition, headers=list(item.headers())
            )
    await producer.stop()
    await commit(pool.kafka, pool.catalogue.gpu_group(POOL), pool.work(), dict.fromkeys(range(16), 1))
    await eventually(lambda: reads(probe, "ours", 16, is_active=True), "each record is consumed and its marker is lag")
    async with pool.consumer():
        await eventually(lambda: reads(probe, "ours", 0, is_active=False), "nothing is left")


async def test_scaling_to_zero_on_an_invalid_offset_never_wakes(pool: GpuPool, probe: Probe) -> None:
    await opened(probe, pool, "asleep", scaleToZeroOnInvalidOffset="true")
    await pool.produce([work_item(f"job{n}") for n in range(40)])
    assert await counted(probe, "asleep") == (0, False)


async def test_an_even_distribution_has_replicas_for_nothing(pool: GpuPool, probe: Probe) -> None:
    await opened(probe, pool, "even", ensureEvenDistributionOfPartitions="true")
    value, _ = await counted(probe, "even")
    assert value > 0


async def test_a_key_that_keda_does_not_know_is_ignored_without_a_word(pool: GpuPool, probe: Probe) -> None:
    """So the renderer refuses what it does not know."""
    await opened(probe, pool, "misspelt", lagThreshold=None, lagTreshold="3")
    assert (await probe.poll("misspelt")).target == 10, "its default"
    with pytest.raises(ScalerError, match="lagThreshold"):
        await opened(probe, pool, "none", lagThreshold="0")


async def test_one_partition_more_than_there_are_gets_through_the_cap(pool: GpuPool, probe: Probe) -> None:
    """The division is one of whole numbers: 169 of ten are sixteen and a rest, and the HPA makes seventeen of it."""
    await opened(probe, pool, "ours")
    await pool.produce([work_item(f"job{n}") for n in range(169)])
    assert await counted(probe, "ours") == (169, True)
    await pool.produce([work_item(f"more{n}") for n in range(1)])
    assert await counted(probe, "ours") == (160, True)


async def test_our_scaler_refuses_what_keda_hands_on(pool: GpuPool, probe: Probe, scaler: ScalerService) -> None:
    """KEDA gives the whole metadata to an external scaler, and would never tell that a key means nothing."""
    right = push_trigger(pool, f"127.0.0.1:{scaler.port}")
    await probe.open("right", "external-push", right)
    assert await counted(probe, "right") == (0, False)
    await probe.open("misspelt", "external-push", {**right, "activationGpuSecond": "0"})
    await probe.open("nowhere", "external-push", {**right, "pool": "b"})
    for name in ("misspelt", "nowhere"):
        with pytest.raises(ScalerError):
            await probe.poll(name, patience_seconds=0)


async def counted(probe: Probe, name: str) -> tuple[float, bool]:
    reading = await probe.poll(name)
    return reading.value, reading.active


async def reads(probe: Probe, name: str, value: float, *, is_active: bool) -> bool:
    return await counted(probe, name) == (value, is_active)

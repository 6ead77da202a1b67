"""What KEDA's own code sees of a real group through its life is what docs/autoscaling.md says, and what we compute."""

from infra.scaling.hpa import Behaviour, Hpa
from infra.scaling.keda import active, lag_of, summed
from schemas.request import LANES
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL
from tests.keda.life import Life
from tests.keda.offsets import partitions_of
from tests.keda.probing import Probe
from tests.keda.table import Row, rows
from tests.keda.triggers import kafka_triggers, threshold


async def test_keda_sees_what_is_there_and_nothing_in_the_end(pool: GpuPool, probe: Probe) -> None:
    """Cases KEDA-01 (no marker keeps a replica), KEDA-02 (a new group), KEDA-05 (what retention deleted), KEDA-10 (a
    long job), KEDA-16 (work before the first consumer), KEDA-17 (partitions never written)."""
    for index, (lane, metadata) in enumerate(kafka_triggers(pool).items()):
        await probe.open(lane, "kafka", metadata, index)
    seen = Seen(pool, probe)
    await Life(pool, seen.see).live()
    assert seen.rows == rows()
    assert not seen.rows[-1].active
    assert seen.rows[-1].replicas == 0


class Seen:
    """What KEDA says at each step, as a row of the table. It must be what our arithmetic says."""

    def __init__(self, pool: GpuPool, probe: Probe) -> None:
        self.rows: list[Row] = []
        self._pool = pool
        self._probe = probe
        self._limit = threshold(pool)

    async def see(self, happened: str) -> None:
        readings = [await self._probe.poll(lane) for lane in LANES]
        assert {reading.target for reading in readings} == {self._limit}
        lags = [round(reading.value) for reading in readings]
        assert lags == [await self._ours(lane) for lane in LANES], happened
        value, is_active = summed(lags), any(reading.active for reading in readings)
        assert is_active == active(value, 0), happened
        interactive, standard, bulk = lags
        replicas = self._replicas(value) if is_active else 0
        self.rows.append(Row(happened, (interactive, standard, bulk), value, is_active, replicas))

    async def _ours(self, lane: str) -> int:
        pool = self._pool
        group, topic = pool.catalogue.gpu_group(POOL), pool.catalogue.work(POOL, lane)
        partitions = await partitions_of(pool.kafka, group, topic, pool.catalogue.pools[POOL].partitions)
        return lag_of(partitions, threshold=self._limit)

    def _replicas(self, value: int) -> int:
        """Where the HPA comes to when nothing else happens."""
        declared = self._pool.catalogue.pools[POOL]
        hpa, have, now = Hpa(Behaviour.of(declared.scaling), declared.replicas_min, declared.replicas_max), 1, 0.0
        while (wish := hpa.wish(now, value, self._limit, have)) != have:
            have, now = wish, now + 60
        return have

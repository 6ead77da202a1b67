"""What KEDA's own code sees of a real group through its life is what docs/autoscaling.md says, and what we compute."""

from itertools import groupby

from infra.scaler.service import ScalerService
from infra.scaling.hpa import Behaviour, Hpa
from infra.scaling.keda import active, lag_of, summed
from schemas.request import LANES
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL
from tests.keda.life import Life
from tests.keda.offsets import partitions_of
from tests.keda.probing import Probe, Reading
from tests.keda.table import Row, rows
from tests.keda.triggers import kafka_triggers, push_trigger, threshold

PUSH = "gpu-seconds"


async def test_keda_sees_what_is_there_and_nothing_in_the_end(
    pool: GpuPool, probe: Probe, scaler: ScalerService
) -> None:
    """Cases KEDA-01 (no marker keeps a replica), KEDA-02 (a new group), KEDA-04 and KEDA-05 (what retention
    deleted), KEDA-10 (a long job), KEDA-16 (work before the first consumer), KEDA-17 (partitions never written)."""
    for index, (lane, metadata) in enumerate(kafka_triggers(pool).items()):
        await probe.open(lane, "kafka", metadata, index)
    await probe.open(PUSH, "external-push", push_trigger(pool, f"127.0.0.1:{scaler.port}"))
    seen = Seen(pool, probe, scaler)
    await Life(pool, seen.see).live()
    assert seen.rows == rows()
    assert not seen.rows[-1].active
    assert seen.rows[-1].replicas == seen.rows[-1].by_seconds == 0
    changes = [one for one, _ in groupby(bool(row.by_seconds) for row in seen.rows)]
    assert [await probe.pushed(PUSH) for _ in changes] == changes, "each change of activity is pushed, and nothing else"


class Seen:
    """What KEDA says at each step, as a row of the table. Of lag it must be what our arithmetic says."""

    def __init__(self, pool: GpuPool, probe: Probe, scaler: ScalerService) -> None:
        self.rows: list[Row] = []
        self._pool = pool
        self._probe = probe
        self._scaler = scaler
        self._limit = threshold(pool)

    async def see(self, happened: str) -> None:
        readings = [await self._probe.poll(lane) for lane in LANES]
        assert {reading.target for reading in readings} == {self._limit}
        lags = [round(reading.value) for reading in readings]
        assert lags == [await self._ours(lane) for lane in LANES], happened
        value, is_active = summed(lags), any(reading.active for reading in readings)
        assert is_active == active(value, 0), happened
        by_seconds = await self._by_seconds()
        interactive, standard, bulk = lags
        replicas = self._replicas(value, self._limit, is_active)
        self.rows.append(Row(happened, (interactive, standard, bulk), value, is_active, replicas, by_seconds))

    async def _ours(self, lane: str) -> int:
        pool = self._pool
        group, topic = pool.catalogue.gpu_group(POOL), pool.catalogue.work(POOL, lane)
        partitions = await partitions_of(pool.kafka, group, topic, pool.catalogue.pools[POOL].partitions)
        return lag_of(partitions, threshold=self._limit)

    async def _by_seconds(self) -> int:
        """Of the external scaler, once it has looked at the broker after this was asked."""
        figures = self._scaler.figures
        for _ in range(2):  # a look that was under way has not seen all
            looked = figures._groups._looked[POOL]
            while figures._groups._looked[POOL] == looked:
                await figures.news(POOL).wait()
        reading: Reading = await self._probe.poll(PUSH)
        assert reading.name.endswith(f"gpu-seconds-{POOL}")
        return self._replicas(reading.value, reading.target, reading.active)

    def _replicas(self, value: float, target: float, is_active: bool) -> int:
        """Where the HPA comes to when nothing else happens."""
        if not is_active:
            return 0
        declared = self._pool.catalogue.pools[POOL]
        hpa, have, now = Hpa(Behaviour.of(declared.scaling), declared.replicas_min, declared.replicas_max), 1, 0.0
        while (wish := hpa.wish(now, value, target, have)) != have:
            have, now = wish, now + 60
        return have

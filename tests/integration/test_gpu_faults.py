"""A few of the faults of `make fault-gpu`: the guilty fail, all others get the same bytes as without a fault."""

import asyncio
from pathlib import Path

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Ready
from streams.kafka.settings import KafkaSettings
from tests.fault.gpu.cases import Case
from tests.fault.gpu.faults import Fault
from tests.fault.gpu.requests import configs, digests_of, job_of
from tests.fault.gpu.trial import Trial
from tests.fault.gpu.verdict import flaws
from tests.tiny import models

__all__ = ["models"]

COUNT = 20


def of_one_item() -> Case:
    """Four that have something wrong with them, and an engine that is killed on the way."""
    name = "of-one-item"
    return Case(
        name,
        [
            Fault(kind="non_finite", job=job_of(name, 3)),
            Fault(kind="one_colour", stage="decode", job=job_of(name, 6)),
            Fault(kind="error", job=job_of(name, 9)),
            Fault(kind="out_of_memory", job=job_of(name, 16)),
            Fault(kind="kill", job=job_of(name, 11), times=1),
        ],
        {3: "non_finite", 6: "blank_output", 9: "generation_error", 16: "out_of_memory"},
        restarts=(1, 1),
    )


async def test_a_fault_harms_nobody_but_whose_it_is(
    kafka: KafkaSettings, engine: tuple[EngineProcess, Ready], models: Path, tmp_path: Path, prefix: str
) -> None:
    # case DIF-13, DIF-14, KQ-04
    among, case = configs(models), of_one_item()
    # Where none hangs, silence is a crowded machine's.
    trial = Trial(case, kafka, models, tmp_path / case.name, COUNT, prefix=prefix[:30], watchdog_seconds=60)
    wanted, evidence = await asyncio.gather(digests_of(engine[0], COUNT, among), trial.run(among))
    assert list(flaws(case, evidence, wanted)) == []

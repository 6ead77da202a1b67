"""Bytewax with its recovery store: offsets, names and buckets are stored together, once an epoch.

python -m tests.benchmarks.admission.apps.bytewax_flow EPOCH_SECONDS
"""

import sys
from dataclasses import dataclass, field
from datetime import timedelta

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

from tests.benchmarks.admission.apps.door import BOOTSTRAP, FOLDER, Door

_BATCH = 500

door = Door()


@dataclass(slots=True)
class Tenant:
    """What a restart must know."""

    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    jobs: dict[str, tuple[float, int | None]] = field(default_factory=dict)
    tokens: float | None = None
    as_of_ms: int = 0


def admit(
    tenant: Tenant | None, record: KafkaSourceMessage[bytes, bytes]
) -> tuple[Tenant, KafkaSinkMessage[bytes, bytes]]:
    """Its sink's key finds the partition: nobody is let choose one."""
    assert record.partition is not None
    assert record.offset is not None
    assert record.timestamp is not None
    tenant = tenant or Tenant()
    where, at_ms = (record.partition, record.offset), record.timestamp[1]
    work = door.admit(*where, at_ms, record.key, record.value, order=record.key)
    decision = work.decision
    if decision.request_id in tenant.names:
        raise ValueError(f"{decision.request_id} came twice")
    tenant.names[decision.request_id] = decision.payload_digest, decision.job_id
    tenant.jobs[decision.job_id] = decision.price_gpu_seconds, decision.deadline_ms
    tenant.tokens, tenant.as_of_ms = decision.bucket_after, decision.appended_ms
    return tenant, KafkaSinkMessage(work.key, work.value, topic=work.topic, headers=list(work.headers))


def dataflow() -> Dataflow:
    flow = Dataflow("admission")
    committed = {"isolation.level": "read_committed"}
    source = KafkaSource([BOOTSTRAP], [door.catalogue.requests], batch_size=_BATCH, add_config=committed)
    records = op.input("requests", flow, source)
    keyed = op.key_on("tenant", records, lambda record: record.key.decode())
    admitted = op.stateful_map("admit", keyed, admit)
    sink = KafkaSink([BOOTSTRAP], None, add_config={"acks": "all", "linger.ms": "0"})
    op.output("work", op.key_rm("work alone", admitted), sink)
    return flow


if __name__ == "__main__":
    store = FOLDER / "bytewax"
    store.mkdir(parents=True)
    init_db_dir(store, 1)
    cli_main(
        dataflow(),
        epoch_interval=timedelta(seconds=float(sys.argv[1])),
        recovery_config=RecoveryConfig(str(store)),
    )

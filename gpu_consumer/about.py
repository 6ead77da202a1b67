"""What a line of the log says of a job beside its sentence: names and numbers, never its prompt."""

from dataclasses import asdict
from typing import Any

from gpu_consumer.backlog import Job
from gpu_consumer.engine.protocol import MemoryReading


def about(job: Job, memory: MemoryReading | None = None) -> dict[str, Any]:
    """For `extra=` (streams.logs.EXTRAS). `memory`: as the engine last said of its device."""
    found: dict[str, Any] = {"job_id": job.id, "lane": job.lane, "attempt": job.run.attempt}
    if job.work.names is not None:
        found |= {"tenant": job.work.names.tenant, "request_id": job.work.names.request_id}
    if (item := job.work.item) is not None:
        found |= {"config": item.config.label, "config_hash": item.config_hash}
    if job.work.trace is not None:
        found["trace_id"] = job.work.trace.trace_id
    if memory is not None:
        found["memory"] = asdict(memory)
    return found

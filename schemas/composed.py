"""The three records that an accepted request becomes, put together as text: work item, decision, outstanding job.

A model would check what was checked before and spell out what is the same in thousands of records; that took longer
than to decide. So a record here is made of parts: texts of a sender's are quoted, a configuration has its own text
already, the work stands in its decision as it is produced. Names of tenants, keys, pools and lanes, job ids and digests
have no letter that JSON would quote.

What holds: each text is one strict JSON object that its model, or dataclass, reads as the equal event, with every field
that has a value and no other; ValueError where a number is not finite. A field that an event gains must be added here:
the tests of this module compare with the fields of the events.
"""

from json.encoder import encode_basestring as quoted
from math import isfinite

from schemas.codec import write
from schemas.decision import WORK_MARK, Decision
from schemas.request import GenerationRequest
from schemas.tenancy import Outstanding


def work_text(
    *,
    job_id: str,
    request: GenerationRequest,
    config: str,
    config_hash: str,
    degraded_from: str | None,
    seed: int,
    lane: str,
    deadline: str,
    results_partition: int,
    price_gpu_seconds: float,
    accepted_at: str,
    appended_ms: int,
) -> str:
    """A WorkItem. `config` is a GenerationConfig's text; both times are RFC 3339."""
    _refuse_endless(price_gpu_seconds)
    metadata = write(request.metadata) if request.metadata else "{}"
    retry_of = "" if request.retry_of is None else f',"retry_of":{quoted(request.retry_of)}'
    degraded = "" if degraded_from is None else f',"degraded_from":{quoted(degraded_from)}'
    return (
        f'{{"schema_version":1,"job_id":"{job_id}","tenant":"{request.tenant}",'
        f'"request_id":{quoted(request.request_id)},"prompt":{quoted(request.prompt)},'
        f'"negative_prompt":{quoted(request.negative_prompt)},"config_hash":"{config_hash}","seed":{seed},'
        f'"images":{request.images},"lane":"{lane}","deadline":"{deadline}","results_partition":{results_partition},'
        f'"price_gpu_seconds":{price_gpu_seconds!r},"accepted_at":"{accepted_at}","appended_ms":{appended_ms},'
        f'"metadata":{metadata}{retry_of}{degraded},"config":{config}}}'
    )


def decision_record(decision: Decision) -> bytes:
    """A Decision, whose work comes last and as it is: decode_decision() takes it out again to the last byte."""
    _refuse_endless(decision.price_gpu_seconds, 0.0 if decision.bucket_after is None else decision.bucket_after)
    text = (
        f'{{"schema_version":{decision.schema_version},"number":{decision.number},"tenant":"{decision.tenant}",'
        f'"request_id":{quoted(decision.request_id)},"job_id":"{decision.job_id}","verdict":"{decision.verdict}",'
        f'"payload_digest":"{decision.payload_digest}","offset":{decision.offset},"appended_ms":{decision.appended_ms},'
        f'"price_gpu_seconds":{decision.price_gpu_seconds!r}'
    )
    if decision.key is not None:
        text += f',"key":"{decision.key}"'
    if decision.code is not None:
        text += f',"code":"{decision.code}"'
    if decision.message is not None:
        text += f',"message":{quoted(decision.message)}'
    if decision.bucket_after is not None:
        text += f',"bucket_after":{decision.bucket_after!r}'
    if decision.deadline_ms is not None:
        text += f',"deadline_ms":{decision.deadline_ms}'
    if (route := decision.route) is not None:
        text += f',"route":{{"pool":"{route.pool}","lane":"{route.lane}","partition":{route.partition}}}'
    if decision.traceparent is not None:
        text += f',"traceparent":{quoted(decision.traceparent)}'
    if decision.work is not None:
        text += f"{WORK_MARK}{decision.work}"
    return f"{text}}}".encode()


def outstanding_record(job: Outstanding) -> bytes:
    """An Outstanding."""
    _refuse_endless(job.price_gpu_seconds)
    key = "" if job.key is None else f'"key":"{job.key}",'
    return (
        f'{{"schema_version":{job.schema_version},"tenant":"{job.tenant}",{key}'
        f'"request_id":{quoted(job.request_id)},"pool":"{job.pool}","lane":"{job.lane}",'
        f'"price_gpu_seconds":{job.price_gpu_seconds!r},"deadline_ms":{job.deadline_ms},'
        f'"payload_digest":"{job.payload_digest}","number":{job.number},"offset":{job.offset},'
        f'"appended_ms":{job.appended_ms}}}'
    ).encode()


def _refuse_endless(value: float, other: float = 0.0) -> None:
    if not (isfinite(value) and isfinite(other)):
        raise ValueError(f"one of {value} and {other} is no JSON number")

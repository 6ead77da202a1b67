"""Records as brokers held them, written by earlier releases, through the readers of this one: nothing that they say is
passed over.

A file of `records/` is what one release wrote, and is never edited. A release that writes another form adds a file.
"""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from admission.fold import Fold
from gpu_consumer.intake import read_work
from gpu_consumer.ledger import Ledger
from infra.scaler.book import Work
from infra.scaler.reader import work_of
from schemas.cancel import Cancel, CancelRequest
from schemas.codec import decode_object, encode
from schemas.composed import decision_record, outstanding_record
from schemas.control import decode_control
from schemas.demand import decode_demand
from schemas.observation import decode_observation
from schemas.outcome import decode_outcome
from schemas.pools import Pool, Pools
from schemas.progress import decode_progress
from schemas.reading import read_event
from schemas.request import GenerationRequest
from schemas.result import parse_result
from schemas.tenancy import UsageRecord
from schemas.topics import Catalogue, TopicSettings
from schemas.uptime import decode_uptime
from streams.emission import work_headers

FILES = sorted((Path(__file__).parent / "records").glob("*.json"))
NEWEST = "work-as-object"


class Record(NamedTuple):
    """`key` and `value` as text; all of a record that a reader may go by."""

    kind: str
    topic: str
    key: bytes
    headers: tuple[tuple[str, bytes], ...]
    value: bytes

    @property
    def body(self) -> dict[str, Any]:
        return decode_object(self.value)


def records_of(path: Path) -> list[Record]:
    return [
        Record(
            kind.partition(":")[0],
            each["topic"],
            each["key"].encode(),
            tuple((name, value.encode()) for name, value in each["headers"]),
            each["value"].encode(),
        )
        for kind, each in json.loads(path.read_text(encoding="utf-8")).items()
    ]


def _tenants(record: Record) -> Fold:
    fold = Fold(0)
    fold.tenants(record.key, record.value)
    return fold


def _written(event: BaseModel | None) -> bytes:
    assert event is not None
    return encode(event)


def _decision(record: Record) -> bytes:
    fold = Fold(0)
    fold.decision(record.key, record.headers, record.value)
    (decision,) = fold.decisions()
    assert decision.headers() == record.headers
    if decision.work is not None:  # a takeover produces it, and must make the very record that a consumer reads
        work = read_work(decision.work.encode(), work_headers(decision), results_partitions=4)
        assert work.problem is None
        assert work.job_id == decision.job_id
    return decision_record(decision)


def _work(record: Record) -> bytes:
    work = read_work(record.value, record.headers, results_partitions=4)
    assert work.item is not None
    assert work.problem is None  # the configuration has the hash that it had
    assert work.item.headers() == record.headers
    asked = Work(work.item.price_gpu_seconds, work.item.config_hash, work.item.images)
    assert work_of(record.value) == asked  # the scaler's part of it
    return encode(work.item)


def _request(record: Record) -> bytes:
    body = record.body
    return encode((CancelRequest if "cancel" in body else GenerationRequest).model_validate(body))


# What a reader made of a record, written again by this release.
AGAIN: dict[str, Callable[[Record], bytes]] = {
    "request": _request,
    "decision": _decision,
    "work": _work,
    "outcome": lambda record: encode(decode_outcome(record.value)),
    "result": lambda record: encode(parse_result(record.value)),
    "cursor": lambda record: _written(_tenants(record).cursor),
    "tenant": lambda record: encode(_tenants(record).tenant_records()[0][1]),
    "outstanding": lambda record: outstanding_record(_tenants(record).jobs()[0][1]),
    "usage": lambda record: encode(read_event(UsageRecord, record.value, "usage")),
    "ledger": lambda record: Ledger.decode(record.value).encode(),
    "observation": lambda record: encode(decode_observation(record.value)),
    "demand": lambda record: encode(decode_demand(record.value)),
    "uptime": lambda record: encode(decode_uptime(record.value)),
    "progress": lambda record: encode(decode_progress(record.value)),
    "control": lambda record: encode(decode_control(record.key, record.value)),
    "cancel": lambda record: encode(read_event(Cancel, record.value, "cancel")),
}
CASES = [
    pytest.param(record, id=f"{path.stem}-{record.kind}-{n}")
    for path in FILES
    for n, record in enumerate(records_of(path))
    if record.topic != "dead-letters"  # those are the records of others, and nothing of ours reads them
]


def _left_out(said: object, again: object, where: str) -> list[str]:
    """Everything in `said` that is otherwise in `again`; more may stand there."""
    if isinstance(said, dict) and isinstance(again, dict):
        return [fault for key in said for fault in _left_out(said[key], again.get(key), f"{where}.{key}")]
    if isinstance(said, list) and isinstance(again, list) and len(said) == len(again):
        return [fault for n, each in enumerate(said) for fault in _left_out(each, again[n], f"{where}[{n}]")]
    return [] if said == again or _one_moment(said, again) else [f"{where}: {said!r} became {again!r}"]


def _one_moment(said: object, again: object) -> bool:
    """Two spellings of it: a producer's is its own."""
    try:
        return datetime.fromisoformat(str(said)) == datetime.fromisoformat(str(again))
    except (ValueError, TypeError):
        return False


@pytest.mark.parametrize("record", CASES)
def test_a_record_of_an_earlier_release_is_read_whole(record: Record) -> None:
    said, again = record.body, decode_object(AGAIN[record.kind](record))
    if isinstance(said.get("work"), str):
        said["work"] = decode_object(said["work"].encode())  # the form of a release that wrote it as text
    assert _left_out(said, again, record.kind) == []


def test_each_topic_has_a_record_of_the_newest_release() -> None:
    pools = Pools(pools={"default": Pool(gpu_product="any", vram_bytes=1, price_usd_per_hour=0)})
    settings = TopicSettings.model_construct(prefix="kiln", requests_partitions=4)
    topics = {spec.name.removeprefix("kiln.") for spec in Catalogue(settings, pools).specs()}
    recorded = {record.topic for path in FILES if path.stem == NEWEST for record in records_of(path)}
    assert {topic for topic in topics if not topic.startswith("work.")} <= recorded
    assert any(topic.startswith("work.") for topic in recorded)
    assert {record.kind for path in FILES for record in records_of(path)} == {*AGAIN, "dead letter"}

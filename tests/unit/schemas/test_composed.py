"""What is composed is what the event would be: each text is read as the equal event, and has no field too few."""

import json
from dataclasses import fields
from datetime import UTC, datetime
from json.encoder import encode_basestring as quoted
from typing import Annotated, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from schemas.codec import decode_object, sha256_hex
from schemas.composed import decision_record, outstanding_record, work_text
from schemas.config import GenerationConfig
from schemas.decision import Decision, RejectionCode, Route, decode_decision
from schemas.errors import Undecodable
from schemas.names import Tenant
from schemas.pools import PoolName
from schemas.request import LANES, SEED_MAX, ConfigRef, GenerationRequest, Lane
from schemas.tenancy import Outstanding
from schemas.tenants import ApiKey
from schemas.work import WorkItem, decode_work
from tests.unit.admission.scene import config_file

CONFIG = config_file("sketch").versions[1]

# What a request may hold: lone surrogates are refused before.
texts = st.text(st.characters(codec="utf-8"))
names = st.text(st.sampled_from("aZ9._-"), min_size=1, max_size=64)
jobs = st.uuids().map(str)
digests = st.binary().map(sha256_hex)
pools = st.text(st.sampled_from("az09-"), min_size=1, max_size=40)
lanes = st.sampled_from(LANES)
ids = st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=1, max_size=128).filter(
    lambda text: "\x7f" not in text
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
moments = st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1)).map(  # noqa: DTZ001 - made aware below
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
)
requests = st.builds(
    GenerationRequest,
    request_id=ids,
    tenant=names,
    prompt=texts.filter(bool),
    negative_prompt=texts,
    config=st.just(ConfigRef(name="sketch")),
    images=st.integers(1, 1024),
    retry_of=st.none() | ids,
    metadata=st.dictionaries(texts, texts | st.sampled_from(["null", "NaN", ',"work":{']), max_size=3),
)


@given(
    request=requests, seed=st.integers(0, SEED_MAX), price=numbers, degraded=st.none() | texts, deadline=moments,
    at=moments, appended=st.integers(0, 1 << 53),
)  # fmt: skip
def test_a_work_item_is_read_as_it_was_meant(
    request: GenerationRequest,
    seed: int,
    price: float,
    degraded: str | None,
    deadline: datetime,
    at: datetime,
    appended: int,
) -> None:
    text = work_text(
        job_id="j", request=request, config=CONFIG.text, config_hash=CONFIG.config_hash, degraded_from=degraded,
        seed=seed, lane="bulk", deadline=deadline.isoformat(timespec="milliseconds"), results_partition=3,
        price_gpu_seconds=price, accepted_at=at.isoformat(timespec="milliseconds"), appended_ms=appended,
    )  # fmt: skip
    assert decode_work(text.encode()) == WorkItem(
        job_id="j", tenant=request.tenant, request_id=request.request_id, retry_of=request.retry_of,
        prompt=request.prompt, negative_prompt=request.negative_prompt, config=CONFIG, config_hash=CONFIG.config_hash,
        degraded_from=degraded, seed=seed, images=request.images, lane="bulk", deadline=deadline, results_partition=3,
        price_gpu_seconds=price, accepted_at=at, appended_ms=appended, metadata=request.metadata,
    )  # fmt: skip


decisions = st.builds(
    Decision,
    number=st.integers(1),
    tenant=names,
    key=st.none() | names,
    request_id=texts,
    job_id=jobs,
    verdict=st.sampled_from(["accepted", "rejected", "cancelled"]),
    code=st.none() | st.sampled_from(get_args(RejectionCode)),
    message=st.none() | texts | st.just(',"work":{"a":1}'),
    payload_digest=digests,
    offset=st.integers(0),
    appended_ms=st.integers(),
    price_gpu_seconds=numbers,
    bucket_after=st.none() | numbers,
    deadline_ms=st.none() | st.integers(),
    route=st.none() | st.builds(Route, pool=pools, lane=lanes, partition=st.integers(0)),
    traceparent=st.none() | texts,
    work=st.none()
    | st.sampled_from(['{"prompt":"é \U0001f525","metadata":{"work":"x"}}', '{"a": 1e3 ,\n"b":{"work":{}} }', "{}"]),
)


@given(decisions)
def test_a_decision_is_read_as_it_was_and_its_work_to_the_last_byte(decision: Decision) -> None:
    data = decision_record(decision)
    assert decode_decision(data) == decision
    body = decode_object(data)
    assert body.get("work") == (None if decision.work is None else decode_object(decision.work.encode()))


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_work_of_an_earlier_release_is_produced_as_it_stood(ascii_only: bool) -> None:
    work = '{"prompt":"\u2028 é \\"\\u00e9\\" ,\\"work\\":{ }","config":{"scale":1e3, "bucket":4},"schema_version":1}'
    decode_object(work.encode())
    decided = {name: value for name, value in FULL.items() if name not in ("route", "traceparent")} | {"work": work}
    former = decode_decision(json.dumps(decided, ensure_ascii=ascii_only, separators=(",", ":")).encode())
    assert former.work == work
    assert decode_decision(decision_record(former)).work == work


@given(
    st.builds(
        Outstanding,
        tenant=names,
        key=st.none() | names,
        request_id=texts,
        pool=pools,
        lane=lanes,
        price_gpu_seconds=numbers,
        deadline_ms=st.integers(),
        payload_digest=digests,
        number=st.integers(),
        offset=st.integers(),
        appended_ms=st.integers(),
    )
)
def test_an_outstanding_job_is_read_as_it_was(job: Outstanding) -> None:
    data = outstanding_record(job)
    assert TypeAdapter(Outstanding).validate_json(data) == job
    decode_object(data)


@pytest.mark.parametrize(
    "form",
    [Tenant, ApiKey, PoolName, Annotated[str, *GenerationConfig.model_fields["pool"].metadata], Lane, RejectionCode],
    ids=["tenant", "key", "pool", "pool of a config", "lane", "code"],
)
def test_what_stands_unquoted_has_no_letter_that_is_quoted(form: Any) -> None:
    """Where it comes from holds it to its form; the letters that end or leave a text are refused there."""
    reader = TypeAdapter(form)
    for letter in [*map(chr, range(0x100)), "\u2028", "\uffff", "\ud800"]:
        for text in (letter, f"a{letter}", f"{letter}a"):
            try:
                read = reader.validate_python(text)
            except ValidationError:
                continue
            assert quoted(read) == f'"{read}"'


FULL: dict[str, Any] = {
    "number": 1, "tenant": "a", "key": "k", "request_id": "r", "job_id": "j", "verdict": "rejected",
    "code": "too_large", "message": "m", "payload_digest": "d", "offset": 1, "appended_ms": 1,
    "price_gpu_seconds": 1.5, "bucket_after": 2.0, "deadline_ms": 3,
    "route": Route(pool="p", lane="bulk", partition=1), "traceparent": "t", "work": "{}",
}  # fmt: skip


def test_no_field_is_forgotten() -> None:
    written = decode_object(decision_record(Decision(**FULL)))
    assert written.keys() == {field.name for field in fields(Decision)}
    job = Outstanding(
        tenant="a", key="k", request_id="r", pool="p", lane="bulk", price_gpu_seconds=1.0, deadline_ms=1,
        payload_digest="d", number=1, offset=1, appended_ms=1,
    )  # fmt: skip
    assert decode_object(outstanding_record(job)).keys() == {field.name for field in fields(Outstanding)}


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="no JSON number"):
        decision_record(Decision(**FULL | {"price_gpu_seconds": number}))


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"number":1}', b'{"number":1,"work":{"a":}}', decision_record(Decision(**FULL)) + b" ",
     decision_record(Decision(**FULL))[:-1]],
)  # fmt: skip
def test_what_is_no_decision_is_refused(data: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_decision(data)

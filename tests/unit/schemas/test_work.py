"""Work items, outcomes and dead letters: what one service writes the other reads, and a later version is held."""

from datetime import UTC, datetime

import pytest

from schemas.codec import canonical, decode_object, encode
from schemas.dead_letter import dead_letter_headers
from schemas.errors import Undecodable, UnknownVersion
from schemas.outcome import Outcome, WorkRecord, decode_outcome
from schemas.result import ConfigUsed, Expired, Failed, parse_result
from schemas.tenancy import CURSOR_KEY, job_key
from schemas.work import WorkItem, decode_work
from tests.unit.schemas.test_config import config

NOW = datetime(2030, 1, 31, 12, 0, 0, 123_000, tzinfo=UTC)
JOB = "2e1d2542-2f5f-533d-a619-0c8f4a3b2d11"
WORK = WorkItem(
    job_id=JOB,
    tenant="alice",
    request_id="r/1",
    prompt="кот 🏺 \u2028",
    config=config(),
    config_hash=config().config_hash,
    seed=0,
    images=2,
    lane="bulk",
    deadline=NOW,
    results_partition=3,
    price_gpu_seconds=4.0,
    accepted_at=NOW,
    metadata={"album": "7"},
)
FAILED = Failed(
    tenant="alice",
    request_id="r/1",
    job_id=JOB,
    finished_at=NOW,
    config=ConfigUsed(name="sketch", version=1, hash="0" * 64, model_digest="sha256:" + "a" * 64),
    code="blank_output",
    message="one colour",
)
OUTCOME = Outcome(
    job_id=JOB, record=WorkRecord(topic="kiln.work.a.bulk", partition=1, offset=9), results_partition=3, result=FAILED
)


def test_work_is_read_as_it_was_written() -> None:
    assert decode_work(encode(WORK)) == WORK
    assert encode(decode_work(encode(WORK))) == encode(WORK)
    assert decode_work(encode(WORK)).config.config_hash == WORK.config_hash


def test_the_headers_of_work_never_change_form() -> None:
    assert WORK.headers() == (
        ("kiln-job", JOB.encode()),
        ("kiln-deadline-ms", b"1896091200123"),
        ("kiln-schema", b"1"),
    )


def test_an_outcome_is_read_as_it_was_written() -> None:
    assert decode_outcome(encode(OUTCOME)) == OUTCOME


def test_a_later_version_is_held_and_not_failed() -> None:
    with pytest.raises(UnknownVersion, match="upgrade"):
        decode_work(encode(WORK).replace(b'"schema_version":1', b'"schema_version":2'))
    with pytest.raises(UnknownVersion, match="upgrade"):
        decode_outcome(encode(OUTCOME).replace(b'"schema_version":1', b'"schema_version":2'))


def test_a_configuration_with_an_option_of_a_later_release_is_held_and_not_failed() -> None:
    body = decode_object(encode(WORK))
    body["config"]["sharpness"] = 2
    with pytest.raises(UnknownVersion, match=r"sharpness.*of a newer release"):
        decode_work(canonical(body))


def test_a_field_of_a_later_version_is_passed_over() -> None:
    assert decode_work(b'{"hue":1,' + encode(WORK)[1:]) == WORK
    assert parse_result(b'{"hue":1,' + encode(FAILED)[1:]) == FAILED


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"job_id":1}', encode(WORK)[:-9]])
def test_garbage_is_undecodable(data: bytes) -> None:  # case KQ-01
    with pytest.raises(Undecodable):
        decode_work(data)
    with pytest.raises(Undecodable):
        decode_outcome(data)


def test_a_result_is_told_by_its_status() -> None:
    expired = Expired(tenant="a", request_id="r", job_id=JOB, finished_at=NOW, message="late", deadline=NOW)
    assert parse_result(encode(expired)) == expired
    with pytest.raises(ValueError, match="status"):
        parse_result(encode(expired).replace(b"expired", b"lost"))


def test_a_dead_letter_says_why_and_where() -> None:
    headers = dict(dead_letter_headers("malformed", "no \ud800", "kiln.requests", 2, 7))
    assert headers["kiln-reason"] == b"malformed"
    assert headers["kiln-message"] == b"no ?"
    assert (headers["kiln-topic"], headers["kiln-partition"], headers["kiln-offset"]) == (b"kiln.requests", b"2", b"7")
    assert "kiln-first-offset" not in headers
    assert dict(dead_letter_headers("conflicting_duplicate", "", "t", 0, 7, 0))["kiln-first-offset"] == b"0"


def test_no_tenant_can_have_the_key_of_the_cursor_or_of_a_job() -> None:
    assert CURSOR_KEY.startswith(b"\0")
    assert job_key(JOB).startswith(b"\0")
    assert not CURSOR_KEY.startswith(job_key(""))

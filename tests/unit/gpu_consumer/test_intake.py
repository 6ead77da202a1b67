"""From a record of work to a job, or to a dead letter."""

import json

import pytest

from gpu_consumer.intake import Cursor, Step, read_work
from schemas.codec import encode
from schemas.errors import Undecodable
from schemas.trace import HEADER_TRACE, TraceContext
from tests.unit.gpu_consumer.work import config, work_item


def test_a_hole_is_believed_when_a_seek_has_proven_it() -> None:
    cursor = Cursor(5)
    assert [cursor.look(4), cursor.look(5)] == [Step.OLD, Step.NEXT]
    assert cursor.look(8) is Step.SEEK
    assert cursor.look(8) is Step.HOLE
    cursor.next = 9
    assert cursor.look(12) is Step.SEEK, "another hole needs another proof"


def test_a_work_item_is_read_with_its_names_and_deadline() -> None:
    item = work_item("a", metadata={"k": "v"}, retry_of="b")
    work = read_work(encode(item), item.headers(), 4)
    assert work.item == item
    assert (work.job_id, work.problem) == (item.job_id, None)
    assert work.deadline_ms == int(item.deadline.timestamp() * 1000)
    assert work.names is not None
    assert (work.names.metadata, work.names.retry_of) == ({"k": "v"}, "b")


def test_a_newer_version_is_named_by_its_headers() -> None:
    item = work_item("a")
    value = json.dumps({"schema_version": 3, "tenant": "blue", "request_id": "a", "results_partition": 2}).encode()
    trace = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", sampled=True)
    work = read_work(value, (*item.headers(), (HEADER_TRACE, trace.header().encode())), 4)
    assert (work.job_id, work.item, work.trace) == (item.job_id, None, trace)
    assert work.names is not None
    assert work.names.results_partition == 2
    assert "upgrade" in (work.problem or "")
    assert read_work(b'{"schema_version":3,"who":"blue"}', item.headers(), 4).names is None


def test_a_named_job_with_a_field_that_is_not_understood_is_held() -> None:
    item = work_item("a")
    value = encode(item).replace(b'"scheduler":"ddim"', b'"scheduler":"newest"')
    work = read_work(value, item.headers(), 4)
    assert (work.job_id, work.item) == (item.job_id, None)
    assert work.names is not None
    assert "config.scheduler" in (work.problem or "")
    with pytest.raises(Undecodable):
        read_work(value, (), 4)


def test_a_hash_that_differs_here_holds_the_job() -> None:
    work = read_work(encode(work_item("a", config_hash="0" * 64)), (), 4)
    assert "one version of promptkiln" in (work.problem or "")


def test_a_result_that_has_nowhere_to_go_holds_the_job() -> None:
    work = read_work(encode(work_item("a", results_partition=4)), (), 4)
    assert "KILN_TOPICS_REQUESTS_PARTITIONS" in (work.problem or "")
    assert work.names is None


# case KQ-01
@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (None, ()),
        (b"\xff", ()),
        (encode(work_item("a")), (("kiln-unreadable", b"its batch is damaged"),)),
        (b"[]", ()),
        (b'{"job_id":"x"}', ()),
        (b'{"schema_version":2}', ()),
        (b'{"schema_version":2}', (("kiln-job", b"../x"), ("kiln-deadline-ms", b"5"))),
        (b'{"schema_version":2}', (("kiln-job", work_item("a").job_id.encode()), ("kiln-deadline-ms", b"soon"))),
        (b'{"schema_version":2}', (("kiln-job", None), ("kiln-deadline-ms", b"5"))),
        (encode(work_item("a")).replace(b"T00:00:00Z", b"T00:00:00"), ()),
        (encode(work_item("a")).replace(work_item("a").job_id.encode(), b"../../../etc/passwd"), ()),
        (encode(work_item("a")).replace(work_item("a").job_id.encode(), work_item("a").job_id.upper().encode()), ()),
    ],
)
def test_what_no_version_can_read_is_undecodable(
    value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    with pytest.raises(Undecodable):
        read_work(value, headers, 4)


def test_a_deadline_beyond_all_calendars_is_bounded() -> None:
    item = work_item("a")
    headers = (("kiln-job", item.job_id.encode()), ("kiln-deadline-ms", b"9" * 30))
    assert read_work(b'{"schema_version":2}', headers, 4).deadline_ms < 10**15


def test_items_of_one_config_share_it_and_its_hash_is_made_once() -> None:
    read = [read_work(encode(work_item(name)), (), 4).item for name in ("a", "b")]
    assert read[0] is not None
    assert read[1] is not None
    assert read[0].config is read[1].config
    assert read[0].job_id != read[1].job_id


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_a_config_that_python_takes_for_equal_keeps_its_own_hash(first: float) -> None:
    for scale in (first, -first):
        made = config(guidance_scale=scale)
        work = read_work(encode(work_item("a", config=made)), (), 4)
        assert work.item is not None
        assert (work.problem, work.item.config.config_hash) == (None, made.config_hash)

"""A job ends once, over every store."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from threading import Barrier
from uuid import uuid4

import pytest

from gpu_consumer.store.base import ObjectStore, OutcomeUnreadable, StoreUnavailable
from gpu_consumer.store.outcomes import OutcomeStore, outcome_key
from schemas.codec import canonical, decode_object, encode
from schemas.outcome import Outcome, WorkRecord
from schemas.result import ConfigUsed, Failed
from tests.contract.faulty_proxy import Fault, FaultyProxy

pytestmark = pytest.mark.timeout(1000)  # the S3 server may have to be built first


class Doubtful:
    """A store that breaks off around a create, once."""

    def __init__(self, store: ObjectStore, *, before: Callable[[], object], after: Callable[[], object]) -> None:
        self._store, self._before, self._after = store, before, after

    def get(self, key: str) -> bytes | None:
        return self._store.get(key)

    def put(self, key: str, data: bytes, content_type: str) -> None:
        self._store.put(key, data, content_type)

    def create(self, key: str, data: bytes, content_type: str) -> bool:
        self._before()
        created = self._store.create(key, data, content_type)
        self._after()
        return created

    def uri(self, key: str) -> str:
        return self._store.uri(key)

    def probe(self) -> None:
        self._store.probe()


def nothing() -> None:
    pass


def unavailable() -> None:
    raise StoreUnavailable("broken off")


def outcome(job_id: str, offset: int = 0, message: str = "not a picture — 🔥") -> Outcome:
    config = ConfigUsed(name="sketch", version=1, hash="0" * 64, model_digest="1" * 64)
    failed = Failed(
        tenant="acme",
        request_id="r-1",
        job_id=job_id,
        metadata={"note": "日本語"},
        finished_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        config=config,
        code="blank_output",
        message=message,
        gpu_seconds=0.1 + 0.2,
    )
    record = WorkRecord(topic="kiln.work.cpu.standard", partition=3, offset=offset)
    return Outcome(job_id=job_id, record=record, results_partition=1, result=failed)


@pytest.fixture
def job_id() -> str:
    return str(uuid4())


def test_an_unsettled_job_has_no_outcome(store: ObjectStore, job_id: str) -> None:
    assert OutcomeStore(store).lookup(job_id) is None


def test_the_first_outcome_stays(store: ObjectStore, job_id: str) -> None:
    # case S3-10
    outcomes = OutcomeStore(store)
    first, second = outcome(job_id, 1), outcome(job_id, 2)
    assert outcomes.settle(first) == first
    assert outcomes.settle(second) == first
    assert outcomes.settle(first) == first
    assert outcomes.lookup(job_id) == first
    assert store.get(f"outcomes/{job_id}.json") == encode(first)


def test_racing_consumers_agree(store: ObjectStore, job_id: str) -> None:
    # case S3-10
    outcomes = OutcomeStore(store)
    offered = [outcome(job_id, offset) for offset in range(20)]
    start = Barrier(len(offered))

    def settle(mine: Outcome) -> Outcome:
        start.wait(60)
        return outcomes.settle(mine)

    with ThreadPoolExecutor(len(offered)) as pool:
        settled = list(pool.map(settle, offered))
    stored = outcomes.lookup(job_id)
    assert stored in offered
    assert settled == [stored] * len(offered)


def test_a_doubt_is_resolved_by_what_is_stored(store: ObjectStore, job_id: str) -> None:
    mine = outcome(job_id)
    assert OutcomeStore(Doubtful(store, before=nothing, after=unavailable)).settle(mine) == mine


def test_a_doubt_is_resolved_by_what_another_stored(store: ObjectStore, job_id: str) -> None:
    first = OutcomeStore(store).settle(outcome(job_id, 1))
    assert OutcomeStore(Doubtful(store, before=unavailable, after=nothing)).settle(outcome(job_id, 2)) == first


def test_a_doubt_that_stays_one_is_raised(store: ObjectStore, job_id: str) -> None:
    outcomes = OutcomeStore(Doubtful(store, before=unavailable, after=nothing))
    with pytest.raises(StoreUnavailable):
        outcomes.settle(outcome(job_id))
    assert outcomes.lookup(job_id) is None


@pytest.mark.parametrize("fault", [Fault.LOSE_REPLY, Fault.DENY_AFTERWARDS, Fault.LOSE_REQUEST])
def test_a_lost_reply_settles_the_job(proxied: ObjectStore, proxy: FaultyProxy, job_id: str, fault: Fault) -> None:
    proxy.plan("PUT", fault, fault)
    proxy.plan("GET", fault)
    mine = outcome(job_id)
    assert OutcomeStore(proxied).settle(mine) == mine
    assert OutcomeStore(proxied).settle(outcome(job_id, 9)) == mine


def test_a_newer_outcome_is_neither_read_nor_overwritten(store: ObjectStore, job_id: str) -> None:
    newer = canonical(decode_object(encode(outcome(job_id))) | {"schema_version": 2})
    store.put(outcome_key(job_id), newer, "application/json")
    outcomes = OutcomeStore(store)
    with pytest.raises(OutcomeUnreadable, match="version 2"):
        outcomes.lookup(job_id)
    with pytest.raises(OutcomeUnreadable, match="version 2"):
        outcomes.settle(outcome(job_id))
    assert store.get(outcome_key(job_id)) == newer


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe", b"{}", b'{"schema_version":1', b"[]"])
def test_garbage_is_neither_read_nor_overwritten(store: ObjectStore, job_id: str, garbage: bytes) -> None:
    store.put(outcome_key(job_id), garbage, "application/json")
    with pytest.raises(OutcomeUnreadable, match=job_id):
        OutcomeStore(store).settle(outcome(job_id))
    assert store.get(outcome_key(job_id)) == garbage


def test_an_outcome_under_another_jobs_name_is_not_read(store: ObjectStore, job_id: str) -> None:
    store.put(outcome_key(job_id), encode(outcome(str(uuid4()))), "application/json")
    with pytest.raises(OutcomeUnreadable, match="speaks of job"):
        OutcomeStore(store).lookup(job_id)


def test_an_artifact_is_named_by_its_bytes(store: ObjectStore, job_id: str) -> None:
    outcomes = OutcomeStore(store)
    stored = outcomes.put_artifact(job_id, 0, b"pixels", "png", "image/png")
    digest = sha256(b"pixels").hexdigest()
    key = f"artifacts/{job_id}/0-{digest}.png"
    assert (stored.uri, stored.sha256, stored.bytes) == (store.uri(key), digest, 6)
    assert store.get(key) == b"pixels"
    assert outcomes.put_artifact(job_id, 0, b"pixels", "png", "image/png") == stored
    other = outcomes.put_artifact(job_id, 0, b"others", "png", "image/png")
    assert other.uri != stored.uri, "two consumers with different pictures do not overwrite each other"
    assert store.get(key) == b"pixels"


@pytest.mark.parametrize(
    "name", ["../x", "", "a" * 36, "{" + "0" * 36 + "}", "0" * 32, "ABCDEF00-0000-0000-0000-000000000000"]
)
def test_a_job_id_is_a_uuid_in_one_spelling(store: ObjectStore, name: str) -> None:
    # case ADM-11
    outcomes = OutcomeStore(store)
    with pytest.raises(AssertionError):
        outcomes.lookup(name)
    with pytest.raises(AssertionError):
        outcomes.settle(outcome(name))
    with pytest.raises(AssertionError):
        outcomes.put_artifact(name, 0, b"x", "png", "image/png")


@pytest.mark.parametrize("extension", ["", "../png", "p.ng", "PNG", "a" * 9])
def test_an_extension_is_a_short_word(store: ObjectStore, job_id: str, extension: str) -> None:
    # case ADM-11
    with pytest.raises(AssertionError):
        OutcomeStore(store).put_artifact(job_id, 0, b"x", extension, "image/png")

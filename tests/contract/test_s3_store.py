"""What only S3 can do wrong, on a real server: lost replies, outages, expired credentials, promises not kept."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.store.base import ObjectStore, StoreRefused, StoreSettings, StoreUnavailable
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.s3 import connector
from tests.contract.faulty_proxy import Fault, FaultyProxy
from tests.s3server import BUCKET, S3Server, new_server

pytestmark = pytest.mark.timeout(1000)  # the server may have to be built first

TEXT = "text/plain"
CARRIED_OUT = [Fault.LOSE_REPLY, Fault.HOLD_REPLY, Fault.DENY_AFTERWARDS]
KEY = "outcomes/a.json"


@pytest.fixture
def own_server(tmp_path: Path, s3_server: S3Server) -> Iterator[S3Server]:
    """A server that this test may kill."""
    assert s3_server
    server = new_server(tmp_path / "own-s3")
    yield server
    server.stop()


@pytest.fixture
def client(s3_store_url: str) -> Any:
    assert s3_store_url
    return connector(StoreSettings())()


def rewritten(credentials: Path, secret: str) -> None:
    credentials.write_text(f"[default]\naws_access_key_id = kiln\naws_secret_access_key = {secret}\n")


def sooner_or_later(operation: Callable[[], bytes | None]) -> bytes | None:
    """The first answer of an impatient store: a machine under load may be slower than its deadline, once or twice."""
    for _ in range(30):
        with suppress(StoreUnavailable):
            return operation()
    return operation()


@pytest.mark.parametrize("fault", CARRIED_OUT)
def test_a_create_whose_reply_is_lost_is_ours(proxied: ObjectStore, proxy: FaultyProxy, fault: Fault) -> None:
    proxy.plan("PUT", fault)
    assert proxied.create(KEY, b"ours", TEXT)
    assert proxied.get(KEY) == b"ours"
    assert [method for method, _ in proxy.requests] == ["PUT", "PUT", "GET", "GET"]


@pytest.mark.parametrize("fault", [*CARRIED_OUT, Fault.LOSE_REQUEST])
def test_many_lost_replies_of_a_create_are_one_create(proxied: ObjectStore, proxy: FaultyProxy, fault: Fault) -> None:
    proxy.plan("PUT", fault, Fault.LOSE_REQUEST, Fault.LOSE_REPLY)
    proxy.plan("GET", Fault.LOSE_REPLY, Fault.CUT_REPLY)
    assert proxied.create(KEY, b"ours", TEXT)
    assert proxied.get(KEY) == b"ours"
    assert proxy.faults_left == 0


def test_a_lost_request_overtaken_by_another_writer_is_theirs(
    proxied: ObjectStore, proxy: FaultyProxy, s3_store_url: str
) -> None:
    direct = open_store(s3_store_url, StoreSettings())
    assert direct.create(KEY, b"theirs", TEXT)
    proxy.plan("PUT", Fault.LOSE_REQUEST)
    assert not proxied.create(KEY, b"ours", TEXT)
    assert proxied.get(KEY) == b"theirs"


def test_a_doubtful_conflict_whose_object_vanished_is_tried_again(
    proxied: ObjectStore, proxy: FaultyProxy, client: Any, s3_store_url: str
) -> None:
    prefix = s3_store_url.split("/", 3)[3]
    removals = iter([False, True])  # after the conflict, before the look

    def remove() -> None:
        if next(removals):
            client.delete_object(Bucket=BUCKET, Key=f"{prefix}/{KEY}")

    direct = open_store(s3_store_url, StoreSettings())
    direct.put(KEY, b"theirs", TEXT)
    proxy.plan("PUT", Fault.DENY_AFTERWARDS, Fault.NONE, between=remove)
    assert proxied.create(KEY, b"ours", TEXT)
    assert direct.get(KEY) == b"ours"


@pytest.mark.parametrize("fault", [*CARRIED_OUT, Fault.LOSE_REQUEST])
def test_a_put_and_a_get_are_tried_again(proxied: ObjectStore, proxy: FaultyProxy, fault: Fault) -> None:
    # case S3-05: the second attempt sends the whole body again
    body = secrets.token_bytes(300_000)
    proxy.plan("PUT", fault)
    proxied.put("artifacts/a.png", body, "image/png")
    proxy.plan("GET", fault, Fault.CUT_REPLY)
    assert proxied.get("artifacts/a.png") == body
    assert proxy.faults_left == 0


def test_a_doubt_that_outlasts_the_deadline_is_said(
    impatient: StoreSettings, proxy: FaultyProxy, s3_store_url: str
) -> None:
    given = {"endpoint_url": proxy.url, "deadline_seconds": 1, "read_timeout_seconds": 30}  # each is answered or ended
    settings = impatient.model_copy(update=given)
    proxy.plan("PUT", Fault.LOSE_REPLY, *[Fault.LOSE_REQUEST] * 1000)
    with pytest.raises(StoreUnavailable, match="may have been carried out"):
        open_store(s3_store_url, settings).create(KEY, b"ours", TEXT)
    assert open_store(s3_store_url, StoreSettings()).get(KEY) == b"ours"


def test_a_store_that_ignores_if_none_match_is_refused(proxied: ObjectStore, proxy: FaultyProxy) -> None:
    proxy.plan("PUT", *[Fault.HIDE_CONFLICT] * 4)
    with pytest.raises(StoreRefused, match="ignores If-None-Match"):
        proxied.probe()
    assert [method for method, _ in proxy.requests][-2:] == ["DELETE", "DELETE"]


def test_an_outage_is_said_within_the_deadline_and_recovered_from(
    own_server: S3Server, impatient: StoreSettings
) -> None:
    settings = impatient.model_copy(update={"endpoint_url": own_server.endpoint_url})
    store = open_store(settings.url, settings)
    patient = open_store(settings.url, StoreSettings(endpoint_url=own_server.endpoint_url))
    assert patient.create(KEY, b"kept", TEXT)
    own_server.kill()
    operations: list[Callable[[], object]] = [
        lambda: store.get(KEY),
        lambda: store.put("artifacts/a.png", b"x", "image/png"),
        lambda: store.create("outcomes/b.json", b"x", TEXT),
        store.probe,
    ]
    for operation in operations:
        with pytest.raises(StoreUnavailable, match="within 2 s"):
            operation()
    own_server.start()
    assert sooner_or_later(lambda: store.get(KEY)) == b"kept"
    assert not patient.create(KEY, b"again", TEXT)
    assert patient.create("outcomes/b.json", b"x", TEXT)
    patient.probe()


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(own_server: S3Server, impatient: StoreSettings) -> None:
    settings = impatient.model_copy(update={"endpoint_url": own_server.endpoint_url, "deadline_seconds": 60})
    store = open_store(settings.url, settings)
    for number in range(20):
        assert store.create(f"outcomes/{number}.json", str(number).encode(), TEXT)
        if number % 7 == 6:
            own_server.kill()
            own_server.start()
    assert [store.get(f"outcomes/{number}.json") for number in range(20)] == [str(n).encode() for n in range(20)]


def test_rotated_credentials_are_found(
    s3_store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_env: dict[str, str]
) -> None:
    # case S3-02
    credentials = tmp_path / "credentials"
    credentials.write_text("[default]\naws_access_key_id = revoked\naws_secret_access_key = x\n")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    store = open_store(s3_store_url, StoreSettings())
    with pytest.raises(StoreRefused, match="renew the credentials"):
        store.create(KEY, b"ours", TEXT)
    rewritten(credentials, s3_env["AWS_SECRET_ACCESS_KEY"])
    assert store.create(KEY, b"ours", TEXT)


def test_a_missing_bucket_and_a_wrong_secret_are_refused(s3_store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreRefused, match="create the bucket"):
        open_store("s3://no-such-bucket/x", StoreSettings()).probe()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreRefused, match="check the secret key"):
        open_store(s3_store_url, StoreSettings()).probe()


def test_a_bucket_with_a_dot_works_by_path(s3_server: S3Server, s3_store_url: str) -> None:
    # case S3-11
    assert s3_store_url
    s3_server.make_bucket("kiln.with.dots")
    store = open_store("s3://kiln.with.dots", StoreSettings())
    store.probe()
    assert store.create(KEY, b"ours", TEXT)
    assert store.uri(KEY) == f"s3://kiln.with.dots/{KEY}"


def test_an_object_is_one_put_with_a_type_a_checksum_and_no_metadata(
    s3_store_url: str, client: Any, proxied: ObjectStore, proxy: FaultyProxy
) -> None:
    # cases S3-07, S3-08
    prefix = s3_store_url.split("/", 3)[3]
    proxied.put("artifacts/large.mp4", bytes(8 << 20), "video/mp4")
    assert [method for method, _ in proxy.requests] == ["PUT"]
    head = client.head_object(Bucket=BUCKET, Key=f"{prefix}/artifacts/large.mp4", ChecksumMode="ENABLED")
    assert (head["ContentType"], head["Metadata"], head["ContentLength"]) == ("video/mp4", {}, 8 << 20)
    assert head["ChecksumSHA256"]
    assert not client.list_multipart_uploads(Bucket=BUCKET).get("Uploads")


def test_a_probe_leaves_nothing(s3_store_url: str, client: Any) -> None:
    open_store(s3_store_url, StoreSettings()).probe()
    prefix = s3_store_url.split("/", 3)[3]
    assert "Contents" not in client.list_objects_v2(Bucket=BUCKET, Prefix=prefix)

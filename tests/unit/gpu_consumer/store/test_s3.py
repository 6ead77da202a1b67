"""What an answer of S3 leads to. The client is boto3's own, with its answers stubbed; the clock is ours."""

import base64
import hashlib
import io
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from gpu_consumer.store.base import StoreRefused, StoreSettings, StoreUnavailable
from gpu_consumer.store.s3 import S3Store, connector
from tests.unit.gpu_consumer.store.test_retry import Clock

TEXT = "text/plain"
KEY = "outcomes/a.json"
BODY = b"ours"
PUT = {
    "Bucket": "pictures",
    "Key": f"prod/{KEY}",
    "Body": BODY,
    "ContentLength": len(BODY),
    "ContentType": TEXT,
    "ChecksumSHA256": base64.b64encode(hashlib.sha256(BODY).digest()).decode(),
}
CREATE = PUT | {"IfNoneMatch": "*"}
GET = {"Bucket": "pictures", "Key": f"prod/{KEY}"}


class Script:
    """Clients whose answers are written down; each connection takes the next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
        self.clock = Clock()
        self.settings = StoreSettings(url="s3://pictures/prod", region="eu-west-1", deadline_seconds=30)
        self.stubs: list[Stubber] = []
        self.connections = 0

    def client(self) -> Stubber:
        client = boto3.session.Session(region_name="eu-west-1").client("s3")
        stub = Stubber(client)
        stub.activate()
        self.stubs.append(stub)
        return stub

    def store(self) -> S3Store:
        return S3Store("pictures", "prod", self.settings, self._connect, self.clock.timing())

    def _connect(self) -> Any:
        self.connections += 1
        return self.stubs[self.connections - 1].client

    def check(self) -> None:
        for stub in self.stubs:
            stub.assert_no_pending_responses()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


def fail(stub: Stubber, operation: str, code: str, status: int, expected: dict[str, Any]) -> None:
    stub.add_client_error(operation, code, "said", http_status_code=status, expected_params=expected)


def answer(stub: Stubber, data: bytes) -> None:
    stub.add_response("get_object", {"Body": StreamingBody(io.BytesIO(data), len(data))}, GET)


def test_a_put_sends_bytes_a_type_and_a_checksum_and_nothing_of_a_user(script: Script) -> None:
    # cases S3-05, S3-08: Stubber compares every parameter
    stub = script.client()
    stub.add_response("put_object", {}, PUT)
    script.store().put(KEY, BODY, TEXT)
    script.check()


@pytest.mark.parametrize(
    ("code", "status"),
    [("InternalError", 500), ("ServiceUnavailable", 503), ("SlowDown", 503), ("502", 502), ("RequestTimeout", 400),
     ("BadDigest", 400), ("ConditionalRequestConflict", 409), ("OperationAborted", 409), ("TooManyRequests", 429)],
)  # fmt: skip
def test_what_passes_is_tried_again_after_a_pause(script: Script, code: str, status: int) -> None:
    stub = script.client()
    fail(stub, "put_object", code, status, CREATE)
    fail(stub, "put_object", code, status, CREATE)
    stub.add_response("put_object", {}, CREATE)
    assert script.store().create(KEY, BODY, TEXT)
    assert len(script.clock.slept) == 2
    script.check()


def test_a_conflict_without_a_doubt_is_believed_at_once(script: Script) -> None:
    stub = script.client()
    fail(stub, "put_object", "ConditionalRequestConflict", 409, CREATE)
    fail(stub, "put_object", "SlowDown", 429, CREATE)
    fail(stub, "put_object", "PreconditionFailed", 412, CREATE)
    assert not script.store().create(KEY, BODY, TEXT)
    script.check()


@pytest.mark.parametrize(("stored", "ours"), [(BODY, True), (b"theirs", False)])
def test_a_conflict_after_a_doubt_is_looked_at(script: Script, stored: bytes, ours: bool) -> None:
    stub = script.client()
    fail(stub, "put_object", "InternalError", 500, CREATE)
    fail(stub, "put_object", "PreconditionFailed", 412, CREATE)
    answer(stub, stored)
    assert script.store().create(KEY, BODY, TEXT) is ours
    script.check()


def test_a_store_that_throttles_is_asked_ever_less_often(script: Script) -> None:
    """Case KEDA-14: the client repeats nothing by itself, so these are all of the calls."""
    assert connector(script.settings)().meta.config.retries["total_max_attempts"] == 1
    stub = script.client()
    for _ in range(100):
        fail(stub, "put_object", "SlowDown", 503, CREATE)
    with pytest.raises(StoreUnavailable, match="within 30 s"):
        script.store().create(KEY, BODY, TEXT)
    slept = script.clock.slept
    first, most = script.settings.retry_first_seconds, script.settings.retry_most_seconds
    assert slept == [0.75 * min(first * 2**n, most) for n in range(len(slept))], "of a pause, jitter takes up to half"
    assert len(slept) + 1 == 100 - len(stub._queue) < 30


def test_an_address_is_no_leave_to_read_that_runs_out(script: Script) -> None:
    """Case S3-04: a result of any age names the object, and readers bring credentials of their own."""
    assert script.store().uri(KEY) == f"s3://pictures/prod/{KEY}"


def test_an_outage_ends_at_the_deadline(script: Script) -> None:
    stub = script.client()
    for _ in range(100):
        fail(stub, "get_object", "ServiceUnavailable", 503, GET)
    with pytest.raises(StoreUnavailable, match="within 30 s"):
        script.store().get(KEY)
    assert sum(script.clock.slept) < 30


@pytest.mark.parametrize(("code", "status"), [("NoSuchKey", 404), ("404", 404)])
def test_a_missing_object_is_none(script: Script, code: str, status: int) -> None:
    fail(script.client(), "get_object", code, status, GET)
    assert script.store().get(KEY) is None


@pytest.mark.parametrize(
    ("code", "status", "cure"),
    [("NoSuchBucket", 404, "create the bucket"), ("AccessDenied", 403, "ListBucket"),
     ("PermanentRedirect", 301, "KILN_STORE_REGION"), ("SignatureDoesNotMatch", 403, "secret key"),
     ("NotImplemented", 501, "conditional writes"), ("EntityTooLarge", 400, "EntityTooLarge")],
)  # fmt: skip
def test_what_an_operator_must_change_is_refused_with_the_cure(
    script: Script, code: str, status: int, cure: str
) -> None:
    fail(script.client(), "get_object", code, status, GET)
    with pytest.raises(StoreRefused, match=cure):
        script.store().get(KEY)
    assert script.clock.slept == []


def test_a_request_signed_too_long_ago_is_signed_again(script: Script) -> None:
    # case S3-01
    stub = script.client()
    fail(stub, "put_object", "RequestTimeTooSkewed", 403, PUT)
    stub.add_response("put_object", {}, PUT)
    script.store().put(KEY, BODY, TEXT)
    script.check()


def test_a_wrong_clock_is_an_outage_with_a_reason(script: Script) -> None:
    # case S3-01: the clock can be set while jobs wait, so none of them fails for it
    stub = script.client()
    for _ in range(2):
        fail(stub, "put_object", "RequestTimeTooSkewed", 403, PUT)
    with pytest.raises(StoreUnavailable, match="set the clock"):
        script.store().put(KEY, BODY, TEXT)
    script.check()


@pytest.mark.parametrize("code", ["ExpiredToken", "TokenRefreshRequired", "InvalidAccessKeyId"])
def test_expired_credentials_are_looked_up_again(script: Script, code: str) -> None:
    # case S3-02
    fail(script.client(), "put_object", code, 400, CREATE)
    script.client().add_response("put_object", {}, CREATE)
    store = script.store()
    assert store.create(KEY, BODY, TEXT)
    assert script.connections == 2
    script.check()


def test_credentials_that_stay_expired_are_refused(script: Script) -> None:
    # case S3-02
    for _ in range(2):
        fail(script.client(), "put_object", "ExpiredToken", 400, PUT)
    with pytest.raises(StoreRefused, match="renew the credentials"):
        script.store().put(KEY, BODY, TEXT)
    assert script.connections == 2


def test_a_doubt_survives_new_credentials(script: Script) -> None:
    first = script.client()
    fail(first, "put_object", "InternalError", 500, CREATE)
    fail(first, "put_object", "ExpiredToken", 400, CREATE)
    second = script.client()
    fail(second, "put_object", "PreconditionFailed", 412, CREATE)
    answer(second, BODY)
    assert script.store().create(KEY, BODY, TEXT)
    script.check()


def test_a_body_that_comes_too_slowly_is_given_up(script: Script) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            script.clock.now += 20
            return super().read(1)

    stub = script.client()
    stub.add_response("get_object", {"Body": StreamingBody(Slow(b"abcdef"), 6)}, GET)
    with pytest.raises(StoreUnavailable, match="too slowly"):
        script.store().get(KEY)


def test_the_client_has_one_attempt_and_short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    monkeypatch.setenv("AWS_RETRY_MODE", "legacy")
    config = connector(StoreSettings(url="s3://b", region="eu-west-1"))().meta.config
    assert config.retries == {"total_max_attempts": 1, "mode": "standard"}
    assert (config.connect_timeout, config.read_timeout) == (2, 10)


@pytest.mark.parametrize(
    ("style", "start"),
    [("path", "http://minio.internal:9000/pictures/"), ("virtual", "http://pictures.minio.internal:9000/")],
)
def test_the_addressing_style_is_a_setting(script: Script, style: str, start: str) -> None:
    # case S3-11
    settings = StoreSettings.model_validate(
        {
            "url": "s3://b",
            "region": "eu-west-1",
            "endpoint_url": "http://minio.internal:9000",
            "addressing_style": style,
        }
    )
    connect: Callable[[], Any] = connector(settings)
    url = connect().generate_presigned_url("get_object", {"Bucket": "pictures", "Key": "a"})
    assert url.startswith(start)

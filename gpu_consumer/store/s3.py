"""S3 as an object store: s3://, on Amazon's or any server that honours If-None-Match on a put.

boto3 has no total deadline, and its own retry of a conditional create reports a conflict with itself. So a call makes
one attempt with short time-outs, the retries are ours, and a conflict after a lost reply is believed only after a look
at what is stored. Objects are sent whole, as bytes, by a single put: a retry cannot send a stream that is used up, and
a killed process leaves no parts behind. No text of a user goes into a key or into metadata.
"""

import base64
import hashlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from gpu_consumer.store.base import StoreRefused, StoreSettings, StoreUnavailable, check_key
from gpu_consumer.store.probe import check_promises
from gpu_consumer.store.retry import Patience, Timing
from gpu_consumer.store.s3_errors import Cure, failure_of, is_missing, is_taken
from streams.s3 import Client, s3_client

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CHUNK_BYTES = 1 << 20  # the deadline is looked at once a chunk of a download
_ERRORS = (BotoCoreError, ClientError, ResponseParserError)


def connector(settings: StoreSettings) -> Callable[[], Client]:
    """Makes clients."""
    return partial(
        s3_client,
        settings,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=settings.connections_max,
        request_checksum_calculation="when_required",  # we send a SHA-256 of our own
        response_checksum_validation="when_supported",
        tcp_keepalive=True,
    )


class _Operation:
    """One call of ours: what it may still try, and whether a lost reply may hide a success."""

    def __init__(self, what: str, patience: Patience) -> None:
        self.what = what
        self.patience = patience
        self.doubt = False
        self.tried: set[Cure] = set()  # of those allowed once


class S3Store:
    """A bucket and a prefix. One client is shared by all threads; it is replaced when its credentials have expired."""

    def __init__(
        self,
        bucket: str,
        prefix: str,
        settings: StoreSettings,
        connect: Callable[[], Client],
        timing: Timing | None = None,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._settings = settings
        self._connect = connect
        self._timing = timing or Timing()
        self._lock = threading.Lock()
        self._client: Client | None = None

    def get(self, key: str) -> bytes | None:
        return self._read(self._operation("read", key), key)

    def put(self, key: str, data: bytes, content_type: str) -> None:
        request = self._object(key, data, content_type)
        self._persist(self._operation("write", key), lambda client: client.put_object(**request))

    def create(self, key: str, data: bytes, content_type: str) -> bool:
        request = self._object(key, data, content_type)
        operation = self._operation("create", key)

        def send(client: Client) -> bool:
            try:
                client.put_object(**request, IfNoneMatch="*")
            except ClientError as error:
                if is_taken(error):
                    return False
                raise
            return True

        while not self._persist(operation, send):
            if not operation.doubt:
                return False
            stored = self._read(operation, key)  # the conflict may be with our own attempt whose reply was lost
            if stored is not None:
                return stored == data
            self._pause(operation, "the object vanished between a conflict and a look at it")
        return True

    def uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._key(key)}"

    def delete(self, key: str) -> None:
        """One attempt that may fail: only the probe deletes, and a consumer needs no right to."""
        try:
            self._shared_client().delete_object(Bucket=self._bucket, Key=self._key(key))
        except _ERRORS as error:
            logger.warning("The probe's object %s stays: %s", self.uri(key), failure_of(error).sentence)

    def probe(self) -> None:
        check_promises(self)

    def _key(self, key: str) -> str:
        full = check_key(self._prefix + check_key(key))
        if not full.startswith(self._prefix):
            raise AssertionError(f"{key!r} is not inside the store")
        return full

    def _object(self, key: str, data: bytes, content_type: str) -> dict[str, Any]:
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        return {
            "Bucket": self._bucket,
            "Key": self._key(key),
            "Body": data,
            "ContentLength": len(data),
            "ContentType": content_type,
            "ChecksumSHA256": digest,
        }

    def _read(self, operation: _Operation, key: str) -> bytes | None:
        request = {"Bucket": self._bucket, "Key": self._key(key)}

        def fetch(client: Client) -> bytes | None:
            try:
                body = client.get_object(**request)["Body"]
            except ClientError as error:
                if is_missing(error):
                    return None
                raise
            chunks = []
            for chunk in body.iter_chunks(_CHUNK_BYTES):
                chunks.append(chunk)
                if operation.patience.over:
                    body.close()
                    raise self._unavailable(operation, "the answer came too slowly")
            return b"".join(chunks)

        return self._persist(operation, fetch)

    def _operation(self, verb: str, key: str) -> _Operation:
        settings = self._settings
        patience = Patience(
            settings.deadline_seconds, settings.retry_first_seconds, settings.retry_most_seconds, self._timing
        )
        return _Operation(f"{verb} {self.uri(key)}", patience)

    def _persist(self, operation: _Operation, send: Callable[[Client], T]) -> T:
        """Send until there is an answer. Raises StoreUnavailable past the deadline, StoreRefused for good."""
        while True:
            client = None
            try:
                client = self._shared_client()
                return send(client)
            except _ERRORS as error:
                self._recover(operation, client, error)

    def _recover(self, operation: _Operation, client: Client | None, error: Exception) -> None:
        """Return where another attempt makes sense, after its pause."""
        failure = failure_of(error)
        operation.doubt = operation.doubt or failure.landed
        again = failure.cure in operation.tried
        operation.tried.add(failure.cure)
        match failure.cure:
            case Cure.RETRY:
                self._pause(operation, failure.sentence, error)
            case Cure.SIGN_AGAIN if again:
                raise self._unavailable(operation, failure.sentence) from error
            case Cure.RENEW if not again:
                self._discard(client)
            case Cure.RENEW | Cure.GIVE_UP:
                raise StoreRefused(f"cannot {operation.what}: {failure.sentence}") from error

    def _pause(self, operation: _Operation, reason: str, error: Exception | None = None) -> None:
        if not operation.patience.wait():
            raise self._unavailable(operation, reason) from error

    def _unavailable(self, operation: _Operation, reason: str) -> StoreUnavailable:
        doubt = "; an attempt may have been carried out" if operation.doubt else ""
        return StoreUnavailable(
            f"cannot {operation.what} within {self._settings.deadline_seconds:g} s: {reason}{doubt}"
        )

    def _shared_client(self) -> Client:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _discard(self, stale: Client | None) -> None:
        """The next attempt makes a new client; once, however many threads saw the credentials of this one expire."""
        with self._lock:
            if self._client is stale:
                logger.warning("The store's credentials have expired; looking them up again.")
                self._client = None

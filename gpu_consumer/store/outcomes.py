"""How a job ends, decided once in the store.

    outcomes/<job id>.json                      created only if none exists, never overwritten
    artifacts/<job id>/<n>-<sha256>.<ext>       named by content, so writing one twice is the same write

Names are made from the server's own ids only. Whoever runs a job publishes what is stored, whoever stored it.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from gpu_consumer.store.base import ObjectStore, OutcomeUnreadable, StoreUnavailable
from schemas.codec import encode, sha256_hex
from schemas.errors import SchemaError
from schemas.outcome import Outcome, decode_outcome

_EXTENSION = re.compile(r"[a-z0-9]{1,8}")


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """Where one picture or video lies, and what its bytes are."""

    uri: str
    sha256: str
    bytes: int


class OutcomeStore:
    """Synchronous, like the store under it; raises its StoreUnavailable and StoreRefused."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def probe(self) -> None:
        """Prove at start that an outcome can be decided here. Raises StoreRefused where it cannot."""
        self._store.probe()

    def lookup(self, job_id: str) -> Outcome | None:
        """The outcome of a job, or None where there is none yet. Raises OutcomeUnreadable."""
        key = outcome_key(job_id)
        data = self._store.get(key)
        if data is None:
            return None
        try:
            outcome = decode_outcome(data)
        except SchemaError as error:
            raise OutcomeUnreadable(f"{self._store.uri(key)} cannot be read: {error}") from error
        if outcome.job_id != job_id:
            raise OutcomeUnreadable(f"{self._store.uri(key)} speaks of job {outcome.job_id[:64]}; look at who wrote it")
        return outcome

    def settle(self, outcome: Outcome) -> Outcome:
        """Offer this outcome; the answer is the one that is stored, this or an earlier one. Publish only that.

        Blocks for up to twice the store's deadline. Raises StoreUnavailable while it is open what is stored: look the
        job up, or settle again, later. Raises OutcomeUnreadable where an earlier outcome cannot be read.
        """
        key = outcome_key(outcome.job_id)
        try:
            if self._store.create(key, encode(outcome), "application/json"):
                return outcome
        except StoreUnavailable:
            stored = self.lookup(outcome.job_id)
            if stored is None:  # ours may still appear
                raise
            return stored
        stored = self.lookup(outcome.job_id)
        if stored is None:
            raise StoreUnavailable(f"{self._store.uri(key)} exists but cannot be found; settle again")
        return stored

    def put_artifact(self, job_id: str, n: int, data: bytes, extension: str, content_type: str) -> StoredArtifact:
        """Store the job's picture number `n`. Any number of times, by any consumer, is like once."""
        digest = sha256_hex(data)
        key = artifact_key(job_id, n, digest, extension)
        self._store.put(key, data, content_type)
        return StoredArtifact(uri=self._store.uri(key), sha256=digest, bytes=len(data))


def outcome_key(job_id: str) -> str:
    return f"outcomes/{_uuid(job_id)}.json"


def artifact_key(job_id: str, n: int, sha256: str, extension: str) -> str:
    if n < 0 or not re.fullmatch(r"[0-9a-f]{64}", sha256) or not _EXTENSION.fullmatch(extension):
        raise AssertionError(f"{n}-{sha256[:80]}.{extension[:20]} is not a name of ours")
    return f"artifacts/{_uuid(job_id)}/{n}-{sha256}.{extension}"


def _uuid(job_id: str) -> str:
    """The id, if it is a UUID in its one spelling: nothing a user wrote comes into a name."""
    try:
        spelled = str(UUID(job_id)) == job_id
    except ValueError:
        spelled = False
    if not spelled:
        raise AssertionError(f"{job_id[:64]!r} is no job id")
    return job_id

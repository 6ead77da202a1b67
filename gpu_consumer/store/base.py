"""The contract of an object store, and how one is opened.

Every call is synchronous and blocks up to the settings' deadline: the consumer makes them in a bounded pool of threads.
"""

import re
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import unquote

from pydantic import Field, field_validator, model_validator

from streams.s3 import S3Settings

KEY_LENGTH_MAX = 1024  # bytes; Amazon S3's limit for a key, prefix included
_PART = re.compile(r"[0-9a-zA-Z._-]{1,255}")


class StoreError(Exception):
    """Base of this package."""


class StoreUnavailable(StoreError):
    """An outage, or a doubt that the deadline did not resolve: a write may or may not have happened.

    Try again with back-off, or read back what is stored. No job fails for it.
    """


class StoreRefused(StoreError):
    """The store says no and will say it again: a missing bucket, a denied access, a promise it does not keep.

    The process is not ready until an operator has changed something.
    """


class OutcomeUnreadable(StoreError):
    """What is stored is no outcome that this version reads. Hold the job; never overwrite the document."""


class ObjectStore(Protocol):
    """A flat space of immutable-by-convention objects. Safe to call from many threads.

    Each method raises StoreUnavailable and StoreRefused; a bad key is our own bug and raises AssertionError.
    """

    def get(self, key: str) -> bytes | None:
        """The whole object, or None where there is none."""

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Store the object, over whatever was there. On return it is durable and whole; a reader never sees half."""

    def create(self, key: str, data: bytes, content_type: str) -> bool:
        """Store the object only where there is none: of any number of racing writers exactly one gets True.

        False: another writer's object is there, untouched. After StoreUnavailable this object may be there or may yet
        appear.
        """

    def uri(self, key: str) -> str:
        """The address a reader of results uses."""

    def probe(self) -> None:
        """Prove at start that the store keeps these promises. Writes under .probe/ and removes what it wrote."""


def check_key(key: str) -> str:
    """The key, if it stays inside its prefix: parts of [0-9a-zA-Z._-] between single slashes, none of them a dot name.

    Keys are made from server ids only, so any other is our own bug. Raised, not asserted, because it must also hold
    under `python -O`.
    """
    parts = key.split("/")
    if len(key) > KEY_LENGTH_MAX or any(part in (".", "..") or not _PART.fullmatch(part) for part in parts):
        raise AssertionError(f"{key[:200]!r} is not a key of server ids")
    return key


class StoreSettings(S3Settings):
    """Where artifacts and outcomes go, and how long one operation may take."""

    url: str = Field("file://.kiln/store", description="file://DIRECTORY or s3://BUCKET/PREFIX")
    deadline_seconds: float = Field(
        30,
        gt=0,
        le=3600,
        description="for one operation, all attempts; the last attempt may outlast it by its time-outs",
    )
    retry_first_seconds: float = Field(0.05, gt=0, le=10, description="the longest pause before the second attempt")
    retry_most_seconds: float = Field(2, gt=0, le=60, description="the longest pause between any two attempts")
    connections_max: int = Field(16, ge=1, le=256, description="kept open to the server, one a thread at work")
    leftover_age_seconds: float = Field(
        3600, ge=60, description="when the temporary file of a killed writer is removed from a file:// store"
    )

    @field_validator("url")
    @classmethod
    def _absolute(cls, url: str) -> str:
        return directory_of(url).as_uri() if url.startswith("file://") else url

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.retry_first_seconds > self.retry_most_seconds:
            raise ValueError("retry_first_seconds is above retry_most_seconds; lower the first or raise the most")
        return self


def directory_of(url: str) -> Path:
    """The absolute directory of a file:// URL; a relative one starts in the working directory."""
    return Path(unquote(url.removeprefix("file://")) or ".").resolve()


def is_key(text: str) -> bool:
    try:
        check_key(text)
    except AssertionError:
        return False
    return True

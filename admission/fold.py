"""Reading a partition's logs: decisions and tenants, interleaved in any order, each in its own order."""

from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from admission.errors import StateRefused
from admission.window import Name
from schemas.decision import (
    HEADER_APPENDED_MS,
    HEADER_DIGEST,
    HEADER_JOB,
    HEADER_NUMBER,
    HEADER_OFFSET,
    Decision,
    decode_decision,
)
from schemas.errors import Undecodable
from schemas.reading import first_fault
from schemas.tenancy import CURSOR_KEY, JOB_PREFIX, Cursor, Outstanding, TenantRecord

_Read = TypeVar("_Read")
_CURSOR, _TENANT, _JOB = TypeAdapter(Cursor), TypeAdapter(TenantRecord), TypeAdapter(Outstanding)


class Fold:
    """Collects what an opening needs and forgets early what it does not.

    Each cursor on the way bounds what is kept: it never goes back. Read tenants first, and the values of decisions
    already emitted are not kept at all.
    """

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._tenants: dict[bytes, bytes] = {}
        self.cursor: Cursor | None = None
        self.names: deque[tuple[bytes, Name]] = deque()
        self._values: deque[tuple[int, bytes | None]] = deque()  # by offset

    def tenants(self, key: bytes, value: bytes | None) -> None:
        if key == CURSOR_KEY:
            if value is not None:
                self.cursor = self._parse(_CURSOR, value, "the cursor")
                self._forget(self.cursor)
        elif value is None:
            self._tenants.pop(key, None)
        else:
            self._tenants[key] = value

    def is_over(self, headers: Sequence[tuple[str, bytes | None]]) -> bool:
        """Whether the last cursor folded needs neither this decision nor any before it."""
        name = self._name(headers)
        cursor = self.cursor
        return cursor is not None and name.number < cursor.oldest and name.offset < cursor.emitted_through

    def decision(self, key: bytes, headers: Sequence[tuple[str, bytes | None]], value: bytes | None) -> None:
        name = self._name(headers)
        if self.cursor is None or name.number >= self.cursor.oldest:
            self.names.append((key, name))
        if self.cursor is None or name.offset >= self.cursor.emitted_through:
            self._values.append((name.offset, value))

    def _name(self, headers: Sequence[tuple[str, bytes | None]]) -> Name:
        fields = {header: (content or b"").decode("utf-8", "replace") for header, content in headers}
        try:
            return Name(
                number=int(fields[HEADER_NUMBER]),
                digest=fields[HEADER_DIGEST],
                offset=int(fields[HEADER_OFFSET]),
                appended_ms=int(fields[HEADER_APPENDED_MS]),
                job_id=fields[HEADER_JOB],
            )
        except (KeyError, ValueError) as error:
            raise StateRefused(
                f"a decision of partition {self._partition} lacks the headers of one; something else wrote to the "
                f"decisions topic: keep it to admission"
            ) from error

    def _forget(self, cursor: Cursor) -> None:
        while self.names and self.names[0][1].number < cursor.oldest:
            self.names.popleft()
        while self._values and self._values[0][0] < cursor.emitted_through:
            self._values.popleft()

    def decisions(self) -> list[Decision]:
        """Those not known to be emitted, in the order of their requests."""
        return [self._decision(value or b"") for _, value in self._values]

    def _decision(self, value: bytes) -> Decision:
        try:
            return decode_decision(value)
        except Undecodable as error:
            raise self._unreadable("a decision", str(error)) from error

    def tenant_records(self) -> list[tuple[str, TenantRecord]]:
        return [
            (key.decode("utf-8", "replace"), self._parse(_TENANT, value, "a tenant's record"))
            for key, value in self._tenants.items()
            if not key.startswith(JOB_PREFIX)
        ]

    def jobs(self) -> list[tuple[str, Outstanding]]:
        return [
            (key.removeprefix(JOB_PREFIX).decode("utf-8", "replace"), self._parse(_JOB, value, "a job's record"))
            for key, value in self._tenants.items()
            if key.startswith(JOB_PREFIX)
        ]

    def _parse(self, reader: TypeAdapter[_Read], value: bytes, what: str) -> _Read:
        try:
            return reader.validate_json(value)
        except ValidationError as error:
            raise self._unreadable(what, first_fault(error)) from error

    def _unreadable(self, what: str, why: str) -> StateRefused:
        return StateRefused(
            f"{what} of partition {self._partition} cannot be read ({why}); if a newer admission wrote it, upgrade "
            f"this one"
        )

"""A record of the requests topic as it came: bytes, and where they stood."""

from collections.abc import Sequence
from dataclasses import dataclass

_HEADER_LENGTHS_BYTES = 2 * 5  # a length is a varint of 32 bits


@dataclass(slots=True)  # not frozen, which would take three times as long to make one
class Arrival:
    """One record of requests, changed by nobody. `appended_ms` is its LogAppendTime: the broker's clock, not the
    producer's."""

    partition: int
    offset: int
    appended_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def headers_bytes(self) -> int:
        """Names and values in UTF-8; a null value counts as empty."""
        if not self.headers:
            return 0
        return sum(len(name.encode("utf-8", "replace")) + len(value or b"") for name, value in self.headers)

    @property
    def record_bytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + self.headers_bytes

    @property
    def wire_bytes(self) -> int:
        """What the record takes uncompressed, at most, without what surrounds it: a header has two lengths, too."""
        return self.record_bytes + _HEADER_LENGTHS_BYTES * len(self.headers)

"""What operators and the placement controller say: the control topic, as it stands. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from schemas.config_file import ConfigFile
from schemas.control import (
    Channel,
    Control,
    Drop,
    Pause,
    Placement,
    PublishConfig,
    PublishedVersion,
    Retire,
    SetQuota,
    Subject,
    SubjectKind,
    decode_control,
)
from schemas.errors import Undecodable
from schemas.stops import Dropped
from schemas.tenants import Quota
from streams.kafka.log import Record

_KEY_SHOWN = 80
_DIGITS_MAX = 18  # of a version


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A record that changed nothing, and why: a log has the sentence, a metric counts by `reason`."""

    reason: Literal["unreadable", "another_hash"]
    message: str


class Controls:
    """A fold over control: one record a subject, the newest counts, a tombstone takes it back.

    `known` is label -> hash of the versions that are published without it, in files and their lock. A record that gives
    another hash to one of them, or to one of an earlier record, is passed over whole: what was in force stays. Earlier
    records leave the log when they are replaced, so each hash has one of its own, `versions`, which is not.

    The attributes are live: they change with the next record. `changes` grows whenever one of them does, and
    `reconfigured` with those that make configurations.
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self.paused: dict[Subject, Pause] = {}
        self.dropped: dict[Subject, Dropped] = {}
        self.channels: dict[tuple[str, str], Channel] = {}  # (config, channel)
        self.retired: dict[str, Retire] = {}  # by label, name@version
        self.published: dict[str, PublishConfig] = {}  # by config
        self.versions: dict[tuple[str, str], PublishedVersion] = {}  # (label, hash)
        self.allowed: dict[str, SetQuota] = {}  # by tenant
        self.placements: dict[str, Placement] = {}  # by pool
        self.changes = 0
        self.reconfigured = 0
        self._hashes = dict(known or {})

    @property
    def configs(self) -> dict[str, ConfigFile]:
        """The files that are published, as of now."""
        return {name: said.file for name, said in self.published.items()}

    @property
    def quotas(self) -> dict[str, Quota]:
        """By tenant, as of now."""
        return {tenant: said.quota for tenant, said in self.allowed.items()}

    def fold(self, record: Record) -> PassedOver | None:
        """Anybody's record. What it cannot be read as changes nothing, and is said by what is returned."""
        passed_over = self.hear(record.key, record.value, record.timestamp)
        if passed_over is None:
            return None
        key = (record.key or b"").decode("utf-8", "backslashreplace")
        where = f"control record {record.offset}, {key[:_KEY_SHOWN]!r}, is passed over"
        return PassedOver(passed_over.reason, f"{where}: {passed_over.message}")

    def hear(self, key: bytes | None, value: bytes | None, at_ms: int) -> PassedOver | None:
        """What was said about `key` at `at_ms`; None takes it back."""
        try:
            slot, subject = self._place(key)
            self._put(slot, subject, None if value is None else decode_control(key, value), at_ms)
        except Undecodable as error:
            return PassedOver("unreadable", str(error))
        except _Refused as error:
            return PassedOver("another_hash", str(error))
        return None

    def _place(self, key: bytes | None) -> tuple[dict[Any, Any], Any]:
        """The dictionary that a key is about, and its key in there. Raises Undecodable."""
        try:
            parts = (key or b"").decode().split("/")
        except UnicodeDecodeError as error:
            raise Undecodable("its key is no UTF-8") from error
        if not all(parts):
            raise Undecodable("its key leaves out whom it is about")
        place: tuple[dict[Any, Any], Any]
        match parts:
            case ["pause" | "drop" as what, kind, name] if kind in get_args(SubjectKind):
                place = (self.paused if what == "pause" else self.dropped), Subject(kind, name)  # type: ignore[arg-type]
            case ["channel", config, channel]:
                place = self.channels, (config, channel)
            case ["retire", config, version] if "@" not in config and _is_version(version):
                place = self.retired, f"{config}@{int(version)}"
            case ["config", name]:
                place = self.published, name
            case ["version", config, version, digest] if "@" not in config and _is_version(version):
                place = self.versions, (f"{config}@{int(version)}", digest)
            case ["tenant", name]:
                place = self.allowed, name
            case ["placement", pool]:
                place = self.placements, pool
            case _:
                raise Undecodable("its key is no subject of this release")
        return place

    def _put(self, slot: dict[Any, Any], key: Any, said: Control | None, at_ms: int) -> None:
        before = slot.get(key)
        match said:
            case None:
                slot.pop(key, None)
            case Drop(reason=reason):
                slot[key] = Dropped(at_ms, reason)
            case PublishConfig(file=file):
                if file.name != key:
                    raise Undecodable(f"it is about {key!r} and holds the config {file.name!r}")
                self._know({config.label: config.config_hash for config in file.versions.values()})
                slot[key] = said
            case PublishedVersion():
                self._know(dict([key]))
                slot[key] = said
            case Placement(term=term) if before is not None and term < before.term:
                pass  # of a controller that has been replaced
            case _:
                slot[key] = said
        if before != slot.get(key):
            self.changes += 1
            self.reconfigured += any(slot is each for each in (self.published, self.channels, self.retired))

    def _know(self, hashes: Mapping[str, str]) -> None:
        """From now on, also when what said so is taken back. Raises _Refused where one is known to be another."""
        for label, digest in hashes.items():
            if self._hashes.get(label, digest) != digest:
                raise _Refused(
                    f"{label} is published already, with other pixels ({self._hashes[label][:12]}, not {digest[:12]}); "
                    "publish it as a new version; what was in force stays"
                )
        self._hashes |= hashes


def _is_version(text: str) -> bool:
    return text.isdecimal() and len(text) <= _DIGITS_MAX


class _Refused(Exception):
    """It can be read, and must not come true."""

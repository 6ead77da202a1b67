"""Whom a pause or a drop reaches: a request by its tenant, by its config or version, and by its pool."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.config import GenerationConfig
from schemas.control import Pause, Subject


@dataclass(frozen=True, slots=True)
class Dropped:
    """A drop, and the LogAppendTime (ms) of its record: what was appended later is not touched."""

    at_ms: int
    reason: str = ""


def of_tenant(tenant: str) -> tuple[Subject, ...]:
    return (Subject("tenant", tenant),)


def of_config(config: GenerationConfig) -> tuple[Subject, ...]:
    """The config by its name and by its version's label, and the pool that it runs in."""
    return (Subject("config", config.name), Subject("config", config.label), Subject("pool", config.pool))


def pause_of(paused: Mapping[Subject, Pause], subjects: Iterable[Subject], now_ms: int) -> tuple[Subject, Pause] | None:
    """Of the pauses in force at `now_ms` the one that lasts longest. One whose `until` has come is none."""
    found = [(subject, pause) for subject in subjects if (pause := paused.get(subject)) is not None]
    in_force = [(subject, pause) for subject, pause in found if ends_ms(pause) > now_ms]
    return max(in_force, key=lambda each: ends_ms(each[1]), default=None)


def ends_ms(pause: Pause) -> float:
    """Of the wall clock; infinite where it is in force until it is taken back."""
    return float("inf") if pause.until is None else pause.until.timestamp() * 1000


def drop_of(
    dropped: Mapping[Subject, Dropped], subjects: Iterable[Subject], appended_ms: float
) -> tuple[Subject, Dropped] | None:
    """A drop that is not older than what was appended at `appended_ms`."""
    for subject in subjects:
        drop = dropped.get(subject)
        if drop is not None and appended_ms <= drop.at_ms:
            return subject, drop
    return None


def in_words(subject: Subject, what: str, reason: str = "") -> str:
    """`tenant 'blue' is paused (its key leaked)`."""
    return f"{subject.kind} {subject.name!r} {what}" + (f" ({reason})" if reason else "")

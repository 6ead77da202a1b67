"""What becomes of an arrival. Exactly one of five."""

from dataclasses import dataclass
from typing import TypeAlias

from admission.accounts import Booking
from schemas.config import GenerationConfig
from schemas.decision import DeadLetterReason, Decision
from schemas.result import Cancelled, Rejected


@dataclass(slots=True)  # not frozen, as a decision is not
class Decided:
    """A new name: log the decision. `result` is its terminal event unless it was accepted; `config` is what an accepted
    request runs with, `degraded_from` the label of a dearer one that it asked for; `bookings` are the accounts of its
    tenant and key as it leaves them."""

    decision: Decision
    name: bytes  # of the request, as request_name() has it
    result: Rejected | Cancelled | None
    clock_ms: int
    config: GenerationConfig | None = None
    degraded_from: str | None = None
    bookings: tuple[Booking, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same name and payload again: silent and free."""

    job_id: str
    clock_ms: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """No readable name, or another payload under a known name; `first_offset` is then the request it contradicts."""

    reason: DeadLetterReason
    message: str
    first_offset: int | None = None
    clock_ms: int = 0


@dataclass(frozen=True, slots=True)
class SendHome:
    """Appended to a partition that is not its tenant's: write it, unchanged, to `partition`."""

    partition: int
    clock_ms: int


@dataclass(frozen=True, slots=True)
class TakeBack:
    """A tenant asks that a request of its own ends: write `name` to cancels. None: it has nothing to end, or is ending
    already, and so nothing is written."""

    name: bytes | None
    clock_ms: int


# Each carries the quota clock (ms) as the record left it, so that applying a verdict needs no clock.
Verdict: TypeAlias = Decided | Repeat | DeadLetter | SendHome | TakeBack

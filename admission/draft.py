"""A request on its way through the stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from admission.accounts import Booking
from admission.arrival import Arrival
from schemas.config import GenerationConfig
from schemas.decision import RejectionCode, Route
from schemas.pools import Pool
from schemas.request import GenerationRequest, Lane
from schemas.tenants import Quota

# A field's name or a sentence may quote the sender, and a record of ours must stay far below the broker's limit.
_FIELD_MAX = 128
_MESSAGE_MAX = 512


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request may not enter: a code for programs, a sentence with the cure for people."""

    code: RejectionCode
    message: str
    field: str | None = None
    retry_after_seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _clipped(self.message, _MESSAGE_MAX))
        if self.field is not None:
            object.__setattr__(self, "field", _clipped(self.field, _FIELD_MAX))


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A request was taken back before it was admitted. `because` says by what; empty: by a cancel of its own."""

    because: str = ""


def _clipped(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


@dataclass(slots=True)
class Draft:
    """What is known so far. Fields without a value are written by the stage named beside them, read by later ones."""

    arrival: Arrival
    tenant: str
    request_id: str
    name: bytes
    body: Mapping[str, Any] | Refusal  # a named body that is not strict JSON is refused after its name was looked up
    digest: str
    now_ms: int
    clock_ms: int
    job: str
    number: int
    metadata: dict[str, str] = field(default_factory=dict)  # limits
    retry_of: str | None = None  # limits
    degraded_from: str | None = None  # overload: the label of the config that was asked for
    key: str | None = None  # limits
    overflows: bool = False  # lane: its tenant has too much in the lane it asks for
    request: GenerationRequest = field(init=False)  # limits
    quota: Quota = field(init=False)  # tenant
    config: GenerationConfig = field(init=False)  # config
    pool: Pool = field(init=False)  # config
    gpu_seconds: float = field(init=False)  # price: of the whole request
    deadline_ms: int = field(init=False)  # deadline
    bookings: tuple[Booking, ...] = field(init=False)  # quota
    route: Route = field(init=False)  # route

    @property
    def appended_ms(self) -> int:
        """When the name began to be taken. A time beyond the quota clock's is not believed: the name would be kept
        until it comes, and its decision be needed long after that has left the log."""
        return min(self.arrival.appended_ms, self.clock_ms)

    @property
    def lane(self) -> Lane:
        """Where it is to wait."""
        return "bulk" if self.overflows else self.request.priority


StageResult: TypeAlias = Refusal | None

"""What a decision sees beside the request and the partition's own memory: the frozen facts of a moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.policy import Policy
from admission.settings import AdmissionLimits
from admission.tokens import TokenCounter
from admission.wait import Wait
from schemas.catalogue import ConfigCatalogue
from schemas.control import Pause, Placement, Subject
from schemas.stops import Dropped
from schemas.tenants import Tenants
from schemas.topics import Catalogue


@dataclass(frozen=True, slots=True)
class World:
    """Facts that change only by replacing the whole world. A view that is not ready is the host's affair: it decides
    nothing then. Raises ValueError where the settings contradict each other."""

    catalogue: Catalogue
    configs: ConfigCatalogue
    tenants: Tenants
    work_partitions: Mapping[str, int | None]  # of each pool, as the topic view sees them; None or absent: not there
    limits: AdmissionLimits
    cancelled: Mapping[bytes, int] = field(default_factory=dict)  # request name -> LogAppendTime (ms) of the newest
    paused: Mapping[Subject, Pause] = field(default_factory=dict)
    dropped: Mapping[Subject, Dropped] = field(default_factory=dict)
    prices: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (pool, config hash) -> measured, a picture
    waits: Mapping[str, Wait] = field(default_factory=dict)  # what waits for a pool; absent: nothing was told
    placements: Mapping[str, Placement] = field(default_factory=dict)  # where a pool's models go
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)  # tenant -> key id -> secret
    policies: Mapping[str, Policy] = field(default_factory=dict)  # by name, in the order in which they judge
    tokens: Mapping[str, TokenCounter] = field(default_factory=dict)  # by the model's name; absent: not counted

    def __post_init__(self) -> None:
        topics, limits = self.catalogue.settings, self.limits
        for what, kept_ms, limit, seconds in (
            ("decisions", topics.decisions_retention_ms, "the dedupe window", limits.dedupe_window_seconds),
            ("work", topics.work_retention_ms, "the longest deadline", limits.deadline_seconds_max),
            ("cancels", topics.cancels_retention_ms, "the longest deadline", limits.deadline_seconds_max),
        ):
            if kept_ms <= seconds * 1000:
                raise ValueError(
                    f"{what} are kept for {kept_ms // 1000} s and {limit} is {seconds} s; "
                    f"raise KILN_TOPICS_{what.upper()}_RETENTION_MS above it"
                )

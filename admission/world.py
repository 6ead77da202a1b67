"""What a decision sees beside the request and the partition's own memory: the frozen facts of a moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.settings import AdmissionLimits
from schemas.catalogue import ConfigCatalogue
from schemas.control import Placement
from schemas.tenants import Tenants
from schemas.topics import Catalogue


@dataclass(frozen=True, slots=True)
class World:
    """Facts that change only by replacing the whole world.

    `work_partitions` is what the topic view sees: pool -> partitions of its work topics; None or absent: not there.
    A view that is not ready is the host's affair: it decides nothing then. `cancelled` is request name -> LogAppendTime
    (ms) of its newest cancel. `placements` is pool -> where its models' work goes. Raises ValueError where the settings
    contradict each other.
    """

    catalogue: Catalogue
    configs: ConfigCatalogue
    tenants: Tenants
    work_partitions: Mapping[str, int | None]
    limits: AdmissionLimits
    cancelled: Mapping[bytes, int] = field(default_factory=dict)
    placements: Mapping[str, Placement] = field(default_factory=dict)

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

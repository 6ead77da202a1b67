"""What a decision sees beside the request and the partition's own memory: the frozen facts of a moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from admission.settings import AdmissionLimits
from schemas.catalogue import ConfigCatalogue
from schemas.pools import Tenants
from schemas.topics import Catalogue


@dataclass(frozen=True, slots=True)
class World:
    """Facts that change only by replacing the whole world.

    `work_partitions` is what the topic view sees: pool -> partitions of its work topics; None or absent: not there.
    A view that is not ready is the host's affair: it decides nothing then. `cancelled` is request name -> LogAppendTime
    (ms) of its newest cancel. Raises ValueError where the settings contradict each other.
    """

    catalogue: Catalogue
    configs: ConfigCatalogue
    tenants: Tenants
    work_partitions: Mapping[str, int | None]
    limits: AdmissionLimits
    cancelled: Mapping[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept_ms = self.catalogue.settings.decisions_retention_ms
        if kept_ms <= self.limits.dedupe_window_ms:
            raise ValueError(
                f"decisions are kept for {kept_ms // 1000} s and the dedupe window is "
                f"{self.limits.dedupe_window_seconds} s; raise KILN_TOPICS_DECISIONS_RETENTION_MS above the window"
            )

"""What pictures took here, as measured, for those who predict it elsewhere."""

from collections import defaultdict

from gpu_consumer.engine.protocol import Observed, Peak
from gpu_consumer.engine.sessions.base import Decoded, Session

_EVERY_PICTURES = 100  # of a session that never ends: some minutes of a fast model


class Observations:
    def __init__(self) -> None:
        self._gpu_seconds: dict[str, list[float]] = defaultdict(list)  # config hash -> of each picture
        self._noted = 0

    def note(self, one: Decoded) -> None:
        self._gpu_seconds[one.wanted.config.config_hash].append(one.share.gpu_seconds)
        self._noted += 1

    def due(self, session: Session) -> list[Observed]:
        """At the end of a session, and each hundred pictures: the means since the last time, by configuration."""
        if not self._noted or not (session.idle or self._noted >= _EVERY_PICTURES):
            return []
        peak = Peak(session.kind, session.peak_slots, session.peak_bytes)
        means = {config_hash: sum(each) / len(each) for config_hash, each in self._gpu_seconds.items()}
        self._gpu_seconds.clear()
        self._noted = 0
        return [Observed(peak, config_hash, mean) for config_hash, mean in means.items()]

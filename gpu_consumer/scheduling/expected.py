"""What a picture of a configuration is expected to cost: its price at first, then what was measured. Pure."""

from collections import deque

from schemas.config import GenerationConfig

_LEARNING = 0.3  # of the newest measurement
_SECONDS_MIN = 0.001  # what costs nothing takes turns all the same
_RUNS_MIN, _RUNS_KEPT = 3, 8  # the first may have compiled kernels: one slow run must not keep its kind from running


class Expected:
    """GPU-seconds a picture, by configuration."""

    def __init__(self) -> None:
        self._learned: dict[str, float] = {}
        self._runs: dict[str, deque[float]] = {}

    def seconds(self, config: GenerationConfig) -> float:
        return self._learned.get(config.config_hash, config.price.gpu_seconds)

    def now(self, config_hash: str, otherwise: float) -> float:
        """What is known by now of a picture that was queued when it was `otherwise`."""
        return self._learned.get(config_hash, otherwise)

    def cost(self, gpu_seconds: float) -> float:
        """What a picture that took so long is booked with."""
        return max(gpu_seconds, _SECONDS_MIN)

    def learn(self, config_hash: str, gpu_seconds: float) -> None:
        gpu_seconds = self.cost(gpu_seconds)
        known = self._learned.get(config_hash, gpu_seconds)
        self._learned[config_hash] = known + _LEARNING * (gpu_seconds - known)

    def run_seconds(self, config_hash: str) -> float:
        """From a slot to the picture, the quickest of the last ones: no price says it. 0 until it is known."""
        runs = self._runs.get(config_hash, ())
        return min(runs) if len(runs) >= _RUNS_MIN else 0.0

    def ran(self, config_hash: str, seconds: float) -> None:
        self._runs.setdefault(config_hash, deque(maxlen=_RUNS_KEPT)).append(seconds)

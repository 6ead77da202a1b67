"""What a picture of a configuration is expected to cost: its price at first, then what was measured. Pure."""

from schemas.config import GenerationConfig

_LEARNING = 0.3  # of the newest measurement


class Expected:
    """GPU-seconds a picture, by configuration."""

    def __init__(self) -> None:
        self._learned: dict[str, float] = {}

    def seconds(self, config: GenerationConfig) -> float:
        return self._learned.get(config.config_hash, config.price.gpu_seconds)

    def learn(self, config_hash: str, gpu_seconds: float) -> None:
        known = self._learned.get(config_hash, gpu_seconds)
        self._learned[config_hash] = known + _LEARNING * (gpu_seconds - known)

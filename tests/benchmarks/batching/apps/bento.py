"""BentoML: one worker with a batchable method. Its batcher sets its own wait, from what it has measured."""

import bentoml

from tests.benchmarks.batching.apps import painter

_HOUR_MS = 3_600_000


@bentoml.service(workers=1, traffic={"timeout": 3600, "max_concurrency": 100_000}, metrics={"enabled": False})
class Painting:
    def __init__(self) -> None:
        self._painter = painter.Painter()

    @bentoml.api(route="/paint", batchable=True, max_batch_size=painter.SIZE, max_latency_ms=_HOUR_MS)
    def paint(self, steps: list[int]) -> list[int]:
        return self._painter.paint(steps)

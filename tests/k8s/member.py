"""A GPU consumer as a pod would run it, on an engine whose pictures take their time. It stands for one pod.

python -m tests.k8s.member, with the variables of a GPU consumer. A prompt that begins with `long` runs until the file
that RELEASE names is there.
"""

import asyncio
import os
import sys
from pathlib import Path

from gpu_consumer.engine.instant import InstantEngine
from gpu_consumer.service import GpuService
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreSettings
from schemas.deployment import DeploymentSettings
from schemas.errors import CommandError
from streams.kafka.settings import KafkaSettings
from streams.logs import log_to_stderr
from streams.signals import until_signal

RELEASE = "KILN_TEST_RELEASE"
LONG = "long"
_SECONDS = 4.0  # in a slot; four slots, so a consumer ends a job a second
_LOOK_SECONDS = 0.2


class PacedEngine(InstantEngine):
    def __init__(self, release: Path) -> None:
        super().__init__(_SECONDS)
        self._release = release

    def _advance(self) -> None:
        if not self._release.exists():
            for life in self._running.values():
                if life.item.prompt.startswith(LONG):
                    life.ends = self._clock() + _LOOK_SECONDS
        super()._advance()


async def main() -> int:
    """The exit status."""
    settings = GpuConsumerSettings()
    engine = PacedEngine(Path(os.environ[RELEASE]))
    service = GpuService(settings, KafkaSettings.load(), DeploymentSettings().catalogue(), engine, StoreSettings())
    try:
        await until_signal(service.run)
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    log_to_stderr(verbose=False)
    sys.exit(asyncio.run(main()))

"""A GPU consumer as a pod would run it, on an engine whose pictures take their time. It stands for one pod.

python -m tests.k8s.member, with the variables of a GPU consumer, and in RELEASES a folder.
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

RELEASES = "KILN_TEST_RELEASES"
_SECONDS = 2.0  # in a slot
_LOOK_SECONDS = 0.2


def held(release: str) -> str:
    """A prompt whose picture runs until a file of that name is in the folder of releases."""
    return f"until {release}"


class PacedEngine(InstantEngine):
    def __init__(self, releases: Path) -> None:
        super().__init__(_SECONDS)
        self._releases = releases

    def _advance(self) -> None:
        for life in self._running.values():
            if not (self._releases / life.item.prompt.rpartition(" ")[2]).exists():
                life.ends = self._clock() + _LOOK_SECONDS
        super()._advance()


async def main() -> int:
    """The exit status."""
    settings = GpuConsumerSettings()
    engine = PacedEngine(Path(os.environ[RELEASES]))
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

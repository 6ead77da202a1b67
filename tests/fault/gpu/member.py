"""A GPU consumer as a process of its own, as `kiln gpu-consumer run` starts it, on the faulty device.

python -m tests.fault.gpu.member, with the variables of a GPU consumer and the plan's file in the environment.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.service import GpuService
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreSettings
from schemas.deployment import DeploymentSettings
from schemas.errors import CommandError
from streams.kafka.settings import KafkaSettings
from streams.logs import log_to_stderr
from tests.fault.gpu.faults import DEVICE, PLAN, Plan


async def main() -> int:
    """The exit status."""
    plan = Plan.read(Path(os.environ[PLAN]))
    settings = GpuConsumerSettings()
    engine = EngineProcess(settings.engine_settings().model_copy(update={"device": DEVICE}), plan.preload)
    service = GpuService(settings, KafkaSettings.load(), DeploymentSettings().catalogue(), engine, StoreSettings())
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    try:
        await service.run(stop)
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    log_to_stderr(verbose=False)
    sys.exit(asyncio.run(main()))

"""The admission service itself over the fuzz's world, a process of its own: python -m tests.fuzz.service PREFIX INTAKE

Everything is short, so that what must leave the memory leaves it while the fuzz runs.
"""

import asyncio
import signal
import sys
from dataclasses import replace
from typing import Literal, cast

from admission.world import World
from schemas.topics import Catalogue
from streams.intake.choice import make_intake
from streams.kafka.settings import KafkaSettings
from streams.logs import log_to_stderr
from streams.service import AdmissionService
from streams.settings import AdmissionServiceSettings
from tests.fuzz.judge import fuzz_world
from tests.kafka import small_catalogue
from tests.unit.admission.scene import PARTITIONS


def live_catalogue(prefix: str) -> Catalogue:
    return small_catalogue(prefix, requests_partitions=PARTITIONS, work_partitions=8, pools=("default",))


def live_world(prefix: str) -> World:
    world = fuzz_world()
    limits = {"dedupe_window_seconds": 5, "default_deadline_seconds": 2, "deadline_seconds_max": 5}
    return replace(
        world,
        catalogue=live_catalogue(prefix),
        limits=world.limits.model_copy(update={**limits, "outstanding_slack_seconds": 1}),
    )


async def main(prefix: str, intake: Literal["faust", "plain"]) -> None:
    kafka, world = KafkaSettings.load(), live_world(prefix)
    settings = AdmissionServiceSettings(health_port=0, intake=intake, idle_seconds=0.1, refresh_seconds=1)
    made = make_intake(intake, kafka, group=world.catalogue.admission_group, topic=world.catalogue.requests)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await AdmissionService(settings, kafka, world, made).run(stop)


if __name__ == "__main__":
    log_to_stderr(verbose=False)
    asyncio.run(main(sys.argv[1], cast(Literal["faust", "plain"], sys.argv[2])))

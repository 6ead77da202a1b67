"""`kiln gate`: what tenants wrote to topics of their own goes on to requests."""

import asyncio
import signal
from typing import Annotated

import typer
from aiokafka.errors import KafkaError

from schemas.errors import CommandError
from schemas.settings import read_settings
from streams.commands.common import deployment
from streams.gate.service import GateService
from streams.gate.settings import GateSettings
from streams.kafka.errors import StreamError
from streams.logs import log_to_stderr


def gate(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what the libraries say, too.")] = False,
) -> None:
    """Pass requests on, each in the name of its topic's tenant, until SIGTERM or SIGINT."""
    log_to_stderr(verbose=verbose)
    settings = read_settings(GateSettings)
    kafka, catalogue = deployment(with_tenants=True)
    if not catalogue.own_topics:
        raise CommandError("no tenant has a topic of its own; give one `topic: true` in tenants.yaml")
    try:
        asyncio.run(_until_signal(GateService(settings, kafka, catalogue)))
    except StreamError as error:
        raise CommandError(str(error)) from error
    except (KafkaError, OSError) as error:
        raise CommandError(
            f"Kafka at {kafka.bootstrap_servers} does not answer: {error}; look at the broker"
        ) from error


async def _until_signal(service: GateService) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    await service.run(stop)

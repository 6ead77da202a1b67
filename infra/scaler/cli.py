"""`kiln scaler`: KEDA asks it how many GPU-seconds each pool has to do."""

import asyncio
from typing import Annotated

import typer
from aiokafka.errors import KafkaError

from infra.scaler.service import ScalerService
from infra.scaler.settings import ScalerSettings
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError, told
from schemas.settings import read_settings
from streams.commands.common import deployment
from streams.kafka.errors import StreamError
from streams.logs import log_to_stderr
from streams.signals import until_signal


def scaler(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what the libraries say, too.")] = False,
) -> None:
    """Answer KEDA's external scaler protocol until SIGTERM or SIGINT."""
    log_to_stderr(verbose=verbose)
    settings = read_settings(ScalerSettings)
    kafka, catalogue = deployment()
    try:
        configs = DeploymentSettings().load_configs()
    except CatalogueError as error:
        raise CommandError(str(error)) from error

    async def serve(stop: asyncio.Event) -> None:
        await ScalerService(settings, kafka, catalogue, configs).run(stop)

    try:
        asyncio.run(until_signal(serve))
    except StreamError as error:
        raise CommandError(str(error)) from error
    except (KafkaError, OSError) as error:
        raise CommandError(kafka.unanswered(told(error))) from error

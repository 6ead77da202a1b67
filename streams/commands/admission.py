"""`kiln admission`: validate, rate-limit, price and route requests."""

import asyncio
import signal
from dataclasses import replace
from typing import Annotated

import typer
from aiokafka.errors import KafkaError

from admission.errors import AdmissionError
from admission.settings import AdmissionLimits
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.settings import read_settings
from streams.commands.codes import codes
from streams.errors import ServiceError
from streams.intake.choice import make_intake
from streams.kafka.errors import LogTruncated, StreamError
from streams.kafka.settings import KafkaSettings
from streams.logs import log_to_stderr
from streams.policies.loading import PolicySettings, load_policies
from streams.service import AdmissionService
from streams.settings import AdmissionServiceSettings
from streams.tokenizers import load_counters
from streams.world import load_world

app = typer.Typer(no_args_is_help=True, help="Admission: decide which requests enter, and where they go.")

EXIT_REFUSED = 3  # the logs lack what is needed: starting again does not help, a person must look


app.command()(codes)


@app.command()
def run(
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Start although the logs lost what an opening needs.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what the libraries say, too.")] = False,
) -> None:
    """Decide requests until SIGTERM or SIGINT. Exit 3 where the logs do not hold what an honest decision needs."""
    log_to_stderr(verbose=verbose)
    try:
        settings = read_settings(AdmissionServiceSettings)
        if accept_loss:
            settings = settings.model_copy(update={"accept_loss": True})
        kafka = KafkaSettings.load()
        declared = load_world(DeploymentSettings(), read_settings(AdmissionLimits))
        counting = declared.limits.prompt_tokens == "refuse"
        declared = replace(
            declared,
            policies=load_policies(read_settings(PolicySettings)),
            tokens=load_counters(settings.tokenizers, declared.configs) if counting else {},
        )
    except (CatalogueError, StreamError, ValueError) as error:
        raise CommandError(str(error)) from error
    catalogue = declared.catalogue
    intake = make_intake(settings.intake, kafka, group=catalogue.admission_group, topic=catalogue.requests)
    try:
        asyncio.run(_until_signal(AdmissionService(settings, kafka, declared, intake)))
    except (AdmissionError, LogTruncated) as error:
        raise CommandError(str(error), EXIT_REFUSED) from error
    except (ServiceError, StreamError) as error:
        raise CommandError(str(error)) from error
    except (KafkaError, OSError) as error:
        raise CommandError(
            f"Kafka at {kafka.bootstrap_servers} does not answer: {error}; look at the broker"
        ) from error


async def _until_signal(service: AdmissionService) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    await service.run(stop)

"""`kiln admission`: validate, rate-limit, price and route requests."""

import asyncio
from typing import Annotated

import typer
from aiokafka.errors import KafkaError

from admission.errors import AdmissionError
from schemas.errors import CatalogueError, CommandError, told
from schemas.settings import read_settings
from streams.commands.codes import codes
from streams.declared import declare
from streams.errors import ServiceError
from streams.garbage import look_less_often
from streams.intake.choice import make_intake
from streams.kafka.errors import LogTruncated, StreamError
from streams.kafka.settings import KafkaSettings
from streams.logs import log_to_stderr
from streams.service import AdmissionService
from streams.settings import AdmissionServiceSettings
from streams.signals import until_signal
from streams.tracing_choice import open_tracing

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
        declared = declare(settings.tokenizers)
        tracing = open_tracing("promptkiln-admission")
    except (CatalogueError, StreamError, ValueError) as error:
        raise CommandError(str(error)) from error
    catalogue = declared.catalogue
    intake = make_intake(settings.intake, kafka, group=catalogue.admission_group, topic=catalogue.requests)
    look_less_often()
    try:
        asyncio.run(until_signal(AdmissionService(settings, kafka, declared, intake, tracing).run))
    except (AdmissionError, LogTruncated) as error:
        raise CommandError(str(error), EXIT_REFUSED) from error
    except (ServiceError, StreamError) as error:
        raise CommandError(str(error)) from error
    except (KafkaError, OSError) as error:
        raise CommandError(kafka.unanswered(told(error))) from error

"""`kiln gate`: what tenants wrote to topics of their own goes on to requests."""

import asyncio
from typing import Annotated

import typer
from aiokafka.errors import KafkaError

from schemas.errors import CommandError, told
from schemas.settings import read_settings
from streams.commands.common import deployment
from streams.gate.service import GateService
from streams.gate.settings import GateSettings
from streams.kafka.errors import StreamError
from streams.logs import log_to_stderr
from streams.signals import until_signal


def gate(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what the libraries say, too.")] = False,
) -> None:
    """Pass on what tenants write to topics of their own, each record in its topic's name, until SIGTERM or SIGINT."""
    log_to_stderr(verbose=verbose)
    settings = read_settings(GateSettings)
    kafka, catalogue = deployment(with_tenants=True)
    if not catalogue.own_topics:
        raise CommandError("no tenant has a topic of its own; give one `topic: true` in tenants.yaml")
    try:
        asyncio.run(until_signal(GateService(settings, kafka, catalogue).run))
    except StreamError as error:
        raise CommandError(str(error)) from error
    except (KafkaError, OSError) as error:
        raise CommandError(kafka.unanswered(told(error))) from error

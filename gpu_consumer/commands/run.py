"""`kiln gpu-consumer`: pull work, make pictures, store and publish them."""

import asyncio
import os
from typing import Annotated, Any

import typer
from aiokafka.errors import KafkaError

from gpu_consumer.commands.options import Device, Models
from gpu_consumer.gpu.settings import GpuTelemetrySettings
from gpu_consumer.gpu.telemetry import GpuTelemetry
from gpu_consumer.models.backends import check_backends
from gpu_consumer.models.digests import ModelUnavailable
from gpu_consumer.service import EXIT_ENGINE, GpuService, make_engine, preload_list, served
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreError, StoreSettings
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError, told
from schemas.settings import read_settings
from streams.kafka.errors import StreamError
from streams.kafka.settings import KafkaSettings
from streams.logs import log_to_stderr
from streams.signals import until_signal
from streams.tracing_choice import open_tracing

app = typer.Typer(no_args_is_help=True, help="GPU consumers: run the work of a pool on one GPU.")

Pool = Annotated[
    str | None, typer.Option(help="The pool whose work is taken; KILN_GPU_POOL if absent.", show_default=False)
]
EngineKind = Annotated[
    str | None,
    typer.Option(help="process, or instant: no pictures worth seeing, in no time; KILN_GPU_ENGINE if absent."),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help="Of /livez, /readyz and /metrics; 0: any free one; KILN_GPU_HEALTH_PORT if absent."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log what the libraries say, too.")]


@app.callback()
def _group() -> None:
    """Keeps `run` a sub-command although it is the only one."""


@app.command()
def run(
    pool: Pool = None,
    engine: EngineKind = None,
    device: Device = None,
    models: Models = None,
    health_port: Port = None,
    verbose: Verbose = False,
) -> None:
    """Work until SIGTERM or SIGINT, then drain. What is not given here comes from KILN_GPU_ variables.

    Exit 3: the engine does not start or died too often; 4: no progress; 5: a lease could not be opened.
    """
    log_to_stderr(verbose=verbose)
    given = {"pool": pool, "engine": engine, "device": device, "models_dir": models, "health_port": health_port}
    try:
        asyncio.run(_serve({name: value for name, value in given.items() if value is not None}))
    except StoreError as error:
        raise CommandError(f"the store cannot be used: {error}") from error
    except StreamError as error:
        raise CommandError(str(error)) from error
    except (KafkaError, OSError) as error:
        raise CommandError(KafkaSettings.load().unanswered(told(error))) from error


def _service(given: dict[str, Any]) -> GpuService:
    try:
        settings = read_settings(GpuConsumerSettings, **given)
        deployment = DeploymentSettings()
        configs = deployment.load_configs()
        preload = preload_list(settings.preload, settings.pool, configs)
        engine = settings.engine_settings()
        on_card = settings.engine == "process" and engine.device == "cuda"
        if settings.engine == "process":
            for config in served(settings.pool, configs):
                check_backends(config, engine.device)
        return GpuService(
            settings,
            KafkaSettings.load(),
            deployment.catalogue(),
            make_engine(settings, engine, preload),
            read_settings(StoreSettings),
            GpuTelemetry(read_settings(GpuTelemetrySettings)) if on_card else None,
            # It decides nothing here: without the file, metrics name only those of control.
            deployment.load_tenants() if deployment.tenants.exists() else None,
            open_tracing("promptkiln-gpu-consumer"),
        )
    except ModelUnavailable as error:
        raise CommandError(str(error), EXIT_ENGINE) from error
    except (CatalogueError, StreamError, StoreError) as error:
        raise CommandError(str(error)) from error


async def _serve(given: dict[str, Any]) -> None:
    service = _service(given)
    await until_signal(service.run)
    if service.consumer.store_calls:
        # All is handed back; Python would wait for the threads of calls that hang, beyond the pod's grace.
        os._exit(0)

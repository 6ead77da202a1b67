"""`kiln demo`: the main job on a broker of its own, from sixty prompts to a contact sheet."""

import asyncio
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import typer
from aiokafka import TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.live import Live
from rich.table import Table

from infra.broker import server
from infra.broker.settings import BrokerSettings
from infra.demo.load import Sent, bad, good, repeats
from infra.demo.services import Service, fresh_folder, running
from infra.demo.sheet import Picture, contact_sheet
from infra.demo.summary import summarise
from schemas.dead_letter import HEADER_REASON
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.result import GenerationResult, Rejected, Succeeded
from schemas.topics import Catalogue, TopicSettings
from streams.artifacts import fetch
from streams.client import PromptClient
from streams.commands.common import deployment, run
from streams.commands.lag import all_lags
from streams.kafka.admin import create_topics
from streams.kafka.log import read_log
from streams.kafka.settings import KafkaSettings

_READY_SECONDS = 120.0
_DONE_SECONDS = 240.0
_CONSUMERS = 2
_IN_FLIGHT = {"kiln_gpu_in_flight_jobs", "kiln_gpu_settling_jobs"}


def demo(
    folder: Annotated[
        Path, typer.Option("--folder", help="Where it keeps everything: empty, or an earlier demo's.")
    ] = Path(".kiln/demo"),
) -> None:
    """Run the whole pipeline on 60 prompts, bad ones among them, and show what came of each."""
    console = Console()
    catalogue = _catalogue()
    folder = fresh_folder(folder).resolve()
    console.rule("promptkiln")
    console.print("small models, made in code …")
    _make_models(folder / "models")
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if named:
        kafka, _ = deployment()
        _run(kafka, catalogue, folder, console)
        return
    settings = BrokerSettings(home=folder)
    console.print("a real Apache Kafka …")
    started = server.up(settings, console, tied=True)
    try:
        _run(KafkaSettings.load(bootstrap_servers=started.bootstrap), catalogue, folder, console)
    finally:
        server.down(settings)


def _make_models(folder: Path) -> None:
    from gpu_consumer.models.shapes.kept import add_shapes
    from gpu_consumer.models.shapes.moving import add_moving_shapes
    from gpu_consumer.models.tiny import make_tiny

    make_tiny(folder)
    add_shapes(folder)
    add_moving_shapes(folder)


def _catalogue() -> Catalogue:
    """The declared pools under a prefix of this run, so that a broker in use is left as it is."""
    try:
        return Catalogue(TopicSettings(prefix=f"demo-{int(time.time())}"), DeploymentSettings().load_pools())
    except CatalogueError as error:
        raise CommandError(f"{error}; run the demo in the repository's root") from error


def _run(kafka: KafkaSettings, catalogue: Catalogue, folder: Path, console: Console) -> None:
    prefix = catalogue.settings.prefix
    created = run(create_topics(kafka, catalogue))
    console.print(f"{len(created)} topics, each named {prefix}.…", highlight=False)
    logs = folder / "logs"
    logs.mkdir()
    common = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "KILN_TOPICS_PREFIX": prefix,
        "KILN_HOME": str(folder),
        "KILN_STORE_URL": (folder / "store").as_uri(),
        "KILN_GPU_MODELS_DIR": str(folder / "models"),
    }
    ports = [_free_port() for _ in range(1 + _CONSUMERS)]
    services = [
        Service("admission", ["admission", "run"], common | {"KILN_ADMISSION_SERVICE_HEALTH_PORT": str(ports[0])}, logs)
    ] + [
        Service(
            f"gpu-{number}", ["gpu-consumer", "run"], common | {"KILN_GPU_HEALTH_PORT": str(ports[1 + number])}, logs
        )
        for number in range(_CONSUMERS)
    ]
    with running(services):
        console.print(f"admission and {_CONSUMERS} GPU consumers on the CPU; logs in {logs}")
        _wait_ready(services, ports)
        run(_drive(kafka, catalogue, services, ports[1:], folder, console))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _get(port: int, path: str) -> str | None:
    """The body at a service's health port, or None while it does not answer well."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            body: bytes = answer.read()
            return body.decode()
    except (urllib.error.URLError, OSError):
        return None


def _wait_ready(services: Sequence[Service], ports: Sequence[int]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    waiting = list(zip(services, ports, strict=True))
    while waiting:
        for service, _ in waiting:
            service.check()
        waiting = [(service, port) for service, port in waiting if _get(port, "/readyz") is None]
        if waiting and time.monotonic() > deadline:
            raise CommandError(
                f"{waiting[0][0].name} is not ready after {_READY_SECONDS:.0f} s; see {waiting[0][0].log}"
            )
        time.sleep(0.1)


async def _drive(
    kafka: KafkaSettings,
    catalogue: Catalogue,
    services: Sequence[Service],
    ports: Sequence[int],
    folder: Path,
    console: Console,
) -> None:
    sent = [*good(), *bad(), *repeats()]
    waiting = {(each.tenant, each.request_id) for each in sent if each.request_id}
    results: list[GenerationResult] = []
    began = time.monotonic()
    async with PromptClient(kafka, catalogue) as client:
        await client.publish((each.tenant, each.value) for each in sent)
        console.print(f"published {len(sent)} records of {len({each.tenant for each in sent})} tenants")
        with Live(console=console, refresh_per_second=4) as live:
            while True:
                arrived = await client.poll(0.5)
                results += arrived
                waiting -= {(each.tenant, each.request_id) for each in arrived}
                lags = await all_lags(kafka, catalogue)
                live.update(await _table(catalogue, lags, results, ports))
                for service in services:
                    service.check()
                if not waiting and not any(sum(topics.values()) for topics in lags.values()):
                    break
                if time.monotonic() - began > _DONE_SECONDS:
                    raise CommandError(
                        f"{len(waiting)} requests have not ended after {_DONE_SECONDS:.0f} s; see {folder}/logs"
                    )
        seconds = time.monotonic() - began
        results += await client.poll(1.0)
    dead_letters = await _dead_letters(kafka, catalogue)
    summary = await asyncio.to_thread(summarise, sent, results, dead_letters, seconds)
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    sheet = folder / "contact-sheet.png"
    sheet.write_bytes(await asyncio.to_thread(_sheet, sent, results))
    console.print()
    console.print_json(json.dumps(summary))
    console.print(f"pictures: {sheet}", soft_wrap=True)
    wrong = [name for name in ("lost", "duplicates", "failed") if summary[name]]
    if wrong or summary["artifacts_verified"] != summary["pictures"]:
        raise CommandError(f"the demo broke a promise ({', '.join(wrong) or 'artifacts'}); see {folder}/summary.json")


async def _table(
    catalogue: Catalogue, lags: dict[str, dict[str, int]], results: Sequence[GenerationResult], ports: Sequence[int]
) -> Table:
    pages = await asyncio.gather(*(asyncio.to_thread(_get, port, "/metrics") for port in ports))
    in_flight = sum(
        int(sample.value)
        for page in pages
        if page
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name in _IN_FLIGHT
    )
    rejected = sum(isinstance(result, Rejected) for result in results)
    table = Table("pool", "waiting", "running", "done", "rejected", "lag", title="requests")
    table.add_row("admission", str(sum(lags[catalogue.admission_group].values())), "", "", str(rejected), "")
    for pool in catalogue.pools:
        lag = sum(lags[catalogue.gpu_group(pool)].values())
        done = sum(isinstance(result, Succeeded) for result in results)
        table.add_row(pool, str(max(0, lag - in_flight)), str(in_flight), str(done), "", str(lag))
    return table


async def _dead_letters(kafka: KafkaSettings, catalogue: Catalogue) -> Counter[str]:
    reasons: Counter[str] = Counter()
    async with aclosing(read_log(kafka, [TopicPartition(catalogue.dead_letters, 0)])) as records:
        async for record in records:
            reasons[dict(record.headers)[HEADER_REASON].decode()] += 1
    return reasons


def _sheet(sent: Sequence[Sent], results: Sequence[GenerationResult]) -> bytes:
    prompts = {(each.tenant, each.request_id): each.prompt for each in reversed(sent)}
    done = sorted(
        (result for result in results if isinstance(result, Succeeded)),
        key=lambda result: (result.tenant, result.request_id),
    )
    return contact_sheet(
        [
            Picture(
                data=fetch(each),
                prompt=prompts[result.tenant, result.request_id],
                config=result.config.name,
                seed=each.seed,
                tenant=result.tenant,
                content_type=each.content_type,
                frames=each.frames,
            )
            for result in done
            for each in result.artifacts
        ]
    )

"""`kiln demo`: the main job on a broker of its own, from sixty prompts to a contact sheet."""

import asyncio
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from aiokafka import TopicPartition
from rich.console import Console
from rich.live import Live

from infra.broker import server
from infra.broker.settings import BrokerSettings
from infra.demo.load import Sent, bad, good, repeats
from infra.demo.pools import demo_pools, write_pools
from infra.demo.replicas import Replicas
from infra.demo.services import Service, fresh_folder, running
from infra.demo.sheet import Picture, contact_sheet
from infra.demo.summary import bill, summarise
from infra.demo.table import lag_of_group, requests_table
from schemas.dead_letter import HEADER_REASON
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError
from schemas.pools import Pools
from schemas.result import GenerationResult, Succeeded
from schemas.topics import Catalogue, TopicSettings
from streams.artifacts import fetch
from streams.client import PromptClient
from streams.commands.common import deployment, run
from streams.commands.cost import read_costs
from streams.commands.lag import all_offsets
from streams.cost import Costs
from streams.kafka.admin import create_topics
from streams.kafka.log import read_log
from streams.kafka.settings import KafkaSettings

_READY_SECONDS = 120.0
_DONE_SECONDS = 240.0
_CONSUMERS = 2


def demo(
    folder: Annotated[
        Path, typer.Option("--folder", help="Where it keeps everything: empty, or an earlier demo's.")
    ] = Path(".kiln/demo"),
    price: Annotated[
        float, typer.Option("--price", min=0, help="USD an hour of a consumer, where its pool costs nothing.")
    ] = 2.0,
) -> None:
    """Run the whole pipeline on 60 prompts, bad ones among them, and show what came of each."""
    console = Console()
    declared = DeploymentSettings()
    try:
        pools = demo_pools(declared.load_pools(), price)
        configs = declared.load_configs()
        # A prefix of this run, so that a broker in use is left as it is.
        catalogue = Catalogue(TopicSettings(prefix=f"demo-{int(time.time())}"), pools)
        replicas = {name: Replicas(pool, name, configs) for name, pool in pools.pools.items()}
    except CatalogueError as error:
        raise CommandError(f"{error}; run the demo in the repository's root") from error
    folder = fresh_folder(folder).resolve()
    console.rule("promptkiln")
    console.print("small models, made in code …")
    _make_models(folder / "models")
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if named:
        kafka, _ = deployment()
        _run(kafka, catalogue, replicas, folder, console)
        return
    settings = BrokerSettings(home=folder)
    console.print("a real Apache Kafka …")
    started = server.up(settings, console, tied=True)
    try:
        _run(KafkaSettings.load(bootstrap_servers=started.bootstrap), catalogue, replicas, folder, console)
    finally:
        server.down(settings)


def _make_models(folder: Path) -> None:
    from gpu_consumer.models.shapes.kept import add_shapes
    from gpu_consumer.models.shapes.moving import add_moving_shapes
    from gpu_consumer.models.tiny import make_tiny

    make_tiny(folder)
    add_shapes(folder)
    add_moving_shapes(folder)


def _run(
    kafka: KafkaSettings, catalogue: Catalogue, replicas: Mapping[str, Replicas], folder: Path, console: Console
) -> None:
    began = datetime.now(UTC)
    pools = folder / "pools.yaml"
    write_pools(Pools(pools=dict(catalogue.pools)), pools)
    prefix = catalogue.settings.prefix
    created = run(create_topics(kafka, catalogue))
    console.print(f"{len(created)} topics, each named {prefix}.…", highlight=False)
    logs = folder / "logs"
    logs.mkdir()
    common = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "KILN_TOPICS_PREFIX": prefix,
        "KILN_POOLS": str(pools),
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
        sent, results, seconds = run(_drive(kafka, catalogue, services, ports[1:], replicas, folder, console))
    # What consumers cost is known when they have said their last words.
    costs = Costs(began, ended := datetime.now(UTC), ended)
    run(read_costs(kafka, catalogue, costs))
    dead_letters = run(_dead_letters(kafka, catalogue))
    summary = summarise(sent, results, dead_letters, seconds)
    summary |= bill(costs, summary["pictures"], max(each.most for each in replicas.values()))
    _finish(summary, sent, results, folder, console)


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
    replicas: Mapping[str, Replicas],
    folder: Path,
    console: Console,
) -> tuple[list[Sent], list[GenerationResult], float]:
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
                offsets = await all_offsets(kafka, catalogue)
                pages = await asyncio.gather(*(asyncio.to_thread(_get, port, "/metrics") for port in ports))
                live.update(requests_table(catalogue, offsets, results, pages, replicas, time.monotonic() - began))
                for service in services:
                    service.check()
                if not waiting and not any(lag_of_group(offsets, group) for group in offsets):
                    break
                if time.monotonic() - began > _DONE_SECONDS:
                    raise CommandError(
                        f"requests that have not ended after {_DONE_SECONDS:.0f} s: {len(waiting)}; see {folder}/logs"
                    )
        seconds = time.monotonic() - began
        results += await client.poll(1.0)
    return sent, results, seconds


def _finish(
    summary: dict[str, Any], sent: Sequence[Sent], results: Sequence[GenerationResult], folder: Path, console: Console
) -> None:
    """Raises CommandError where a promise was broken."""
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    sheet = folder / "contact-sheet.png"
    sheet.write_bytes(_sheet(sent, results))
    console.print()
    console.print_json(json.dumps(summary))
    console.print(
        f"{summary['succeeded']} of {summary['names']} requests became {summary['pictures']} pictures and videos, "
        f"{sum(summary['rejected'].values())} were refused. They were charged {summary['cost_usd']:.6f} USD; the "
        f"consumers cost {summary['paid_usd']:.6f}, {summary['loading_cost_usd']:.6f} of it while they loaded and "
        f"{summary['idle_cost_usd']:.6f} while they were idle. KEDA would have run up to "
        f"{summary['keda_replicas_max']}.",
        highlight=False,
    )
    console.print(f"pictures: {sheet}", soft_wrap=True)
    wrong = [name for name in ("lost", "duplicates", "failed") if summary[name]]
    if wrong or summary["artifacts_verified"] != summary["pictures"]:
        raise CommandError(f"the demo broke a promise ({', '.join(wrong) or 'artifacts'}); see {folder}/summary.json")


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

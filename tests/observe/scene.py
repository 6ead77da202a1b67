"""The demo's pipeline with everything that has metrics: admission, two GPU consumers, the gate, the external scaler."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import yaml
from rich.console import Console

from infra.broker import server
from infra.broker.settings import BrokerSettings
from infra.demo.load import Sent, bad, good
from infra.demo.services import Service, running
from schemas.pools import Pool, Pools, Scaling
from schemas.tenants import Tenants
from schemas.topics import Catalogue, TopicSettings
from streams.client import PromptClient
from streams.kafka.admin import create_topics
from streams.kafka.clients import idempotent_producer
from streams.kafka.settings import KafkaSettings
from tests.fault.world import MODELS, ROOT, ensure_models
from tests.observe.server import is_well
from tests.ports import free_port

GATED = "gallery"  # a tenant with a topic of its own
POOLS = Pools(
    pools={
        "default": Pool(
            gpu_product="cpu",
            vram_bytes=2 << 30,
            price_usd_per_hour=2.5,
            budget_usd_per_month=5000.0,
            replicas_max=2,
            partitions=4,
            scaling=Scaling(wait_seconds=30.0),
        )
    }
)
_CONSUMERS = 2
_READY_SECONDS = 240.0
_CONFIGS = ("shapes", "sketch")  # quick ones: what is shown is the pipeline, not the pictures


@dataclass(frozen=True, slots=True)
class Scene:
    kafka: KafkaSettings
    catalogue: Catalogue
    services: Sequence[Service]
    ports: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Raises CommandError where a service has ended."""
        for service in self.services:
            service.check()

    def load(self) -> None:
        """One round: good requests of every tenant under new names, bad ones of every kind, and some by the gate."""
        name = uuid4().hex[:6]
        asyncio.run(self._publish([_renamed(each, name) for each in (*good(), *bad())]))

    async def _publish(self, sent: Sequence[Sent]) -> None:
        async with PromptClient(self.kafka, self.catalogue) as client:
            await client.publish((each.tenant, each.value) for each in sent)
        gated = idempotent_producer(self.kafka)
        await gated.start()
        try:
            for each in sent[:6]:
                value = json.dumps(json.loads(each.value) | {"tenant": GATED}).encode()
                await gated.send_and_wait(self.catalogue.tenant_requests(GATED), value)
        finally:
            await gated.stop()


def _renamed(sent: Sent, round_: str) -> Sent:
    """The same under a name of this round, in a quick config. What cannot be read stays as it is."""
    if sent.request_id is None:
        return sent
    body = json.loads(sent.value)
    body["request_id"] += f"-{round_}"
    if body["config"]["name"] in {"painting", "poster", "moving-shapes"}:
        body["config"] = {"name": _CONFIGS[1]}
    return Sent(sent.tenant, json.dumps(body).encode(), body["request_id"], sent.prompt)


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Up and ready; all is stopped at the end. Logs are in `folder`/logs."""
    console = Console(stderr=True)
    ensure_models(MODELS)
    tenants = Tenants.model_validate(yaml.safe_load((ROOT / "infra" / "tenants.yaml").read_text(encoding="utf-8")))
    declared = tenants.model_dump(mode="json", exclude_none=True)
    declared["tenants"]["atelier"]["budget_usd_per_month"] = 900.0
    declared["tenants"][GATED] = {"per_second": 20, "burst": 200, "topic": True}
    (folder / "tenants.yaml").write_text(yaml.safe_dump(declared), encoding="utf-8")
    (folder / "pools.yaml").write_text(yaml.safe_dump(POOLS.model_dump(mode="json")), encoding="utf-8")
    settings = BrokerSettings(home=folder)
    with ExitStack() as stack:
        bootstrap = server.up(settings, console, tied=True).bootstrap
        stack.callback(server.down, settings)
        kafka = KafkaSettings(bootstrap_servers=bootstrap)
        catalogue = Catalogue(TopicSettings(prefix="observed"), POOLS, own_topics=[GATED])
        asyncio.run(create_topics(kafka, catalogue))
        (logs := folder / "logs").mkdir()
        common = {
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
            "KILN_TOPICS_PREFIX": catalogue.settings.prefix,
            "KILN_HOME": str(folder),
            "KILN_CONFIGS": str(ROOT / "infra" / "configs"),
            "KILN_POOLS": str(folder / "pools.yaml"),
            "KILN_TENANTS": str(folder / "tenants.yaml"),
            "KILN_STORE_URL": (folder / "store").as_uri(),
            "KILN_GPU_MODELS_DIR": str(MODELS),
            "KILN_GPU_PRELOAD": ",".join(_CONFIGS),
            "KILN_SCALER_PORT": "0",
        }
        wanted = {
            "admission": (["admission", "run"], "KILN_ADMISSION_SERVICE_HEALTH_PORT"),
            "gate": (["gate"], "KILN_GATE_HEALTH_PORT"),
            "scaler": (["scaler"], "KILN_SCALER_HEALTH_PORT"),
            **{f"gpu-{n}": (["gpu-consumer", "run"], "KILN_GPU_HEALTH_PORT") for n in range(_CONSUMERS)},
        }
        ports = {name: free_port() for name in wanted}
        services = [
            Service(name, command, common | {setting: str(ports[name])}, logs)
            for name, (command, setting) in wanted.items()
        ]
        stack.enter_context(running(services))
        made = Scene(kafka, catalogue, services, ports)
        _wait_ready(made)
        yield made


def _wait_ready(made: Scene) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    waiting = dict(made.ports)
    while waiting:
        made.check()
        waiting = {name: port for name, port in waiting.items() if not is_well(f"http://127.0.0.1:{port}/readyz")}
        if waiting and time.monotonic() > deadline:
            raise TimeoutError(f"{', '.join(waiting)} not ready after {_READY_SECONDS:.0f} s")
        time.sleep(0.2)

"""The surroundings of a run: its folder, its declarations, its environment, its broker and its topics."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console

from infra.broker import server
from infra.broker.settings import BrokerSettings
from schemas.catalogue import load_configs
from schemas.lock import write_lock
from schemas.pools import Pool, Pools
from schemas.request import LANES
from schemas.topics import Catalogue, TopicSettings
from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.fault.children import MARK, Child
from tests.fault.history import Limit
from tests.fault.plan import Kind
from tests.ports import free_port

POOL = "default"
ROOT = Path(__file__).parents[2]
MODELS = ROOT / ".kiln" / "models"
SESSION_SECONDS = 3.0
_REQUESTS_PARTITIONS = 4
_WORK_PARTITIONS = 4
_QUICK_STEPS = 4


@dataclass(frozen=True, slots=True)
class World:
    """Everything a child process needs to know, and where what it does can be seen."""

    folder: Path
    mark: str
    bootstrap: str
    catalogue: Catalogue
    environment: Mapping[str, str]

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def work_topics(self) -> list[str]:
        return [self.catalogue.work(POOL, lane) for lane in LANES]

    @property
    def holed_topics(self) -> dict[str, int]:
        """Requests and work, with their numbers of partitions."""
        partitions = self.catalogue.pools[POOL].partitions
        return {
            self.catalogue.requests: self.catalogue.requests_partitions,
            **dict.fromkeys(self.work_topics, partitions),
        }

    @property
    def groups(self) -> dict[str, list[str]]:
        """Both consumer groups, and the topics whose offsets they keep."""
        return {
            self.catalogue.admission_group: [self.catalogue.requests],
            self.catalogue.gpu_group(POOL): self.work_topics,
        }

    def child(self, kind: Kind, number: int, extra: Mapping[str, str]) -> Child:
        """A service process, not started yet."""
        port = free_port()
        name = f"{kind}-{number}"
        environment = dict(self.environment) | {
            "KILN_ADMISSION_SERVICE_HEALTH_PORT": str(port),
            "KILN_GPU_HEALTH_PORT": str(port),
            **extra,
        }
        command = [str(Path(sys.executable).with_name("kiln")), str(kind), "run"]
        return Child(name, command, environment, port, self.folder / f"{name}.log")


@contextmanager
def broker(home: Path, console: Console) -> Iterator[str]:
    """A broker of our own, stopped at the end. Yields its address."""
    settings = BrokerSettings(home=home)
    started = server.up(settings, console, tied=True)
    try:
        yield started.bootstrap
    finally:
        server.down(settings)


def make_world(
    folder: Path,
    bootstrap: str,
    *,
    prefix: str,
    limits: Mapping[str, Limit],
    settings: Mapping[str, str],
    more_steps: int = 1,
) -> World:
    """Write the declarations of a small deployment into `folder` and create its topics. All configurations but the
    quickest get `more_steps` times the steps of the tiny ones, so that a blow finds a batch that runs."""
    _write_configs(folder / "configs", more_steps)
    pool = Pool(
        gpu_product="cpu", vram_bytes=2 << 30, price_usd_per_hour=0, replicas_max=2, partitions=_WORK_PARTITIONS
    )
    pools = Pools(pools={POOL: pool})
    (folder / "pools.yaml").write_text(yaml.safe_dump(pools.model_dump(mode="json")), encoding="utf-8")
    quotas = {name: _quota(limit) for name, limit in limits.items()}
    (folder / "tenants.yaml").write_text(yaml.safe_dump({"tenants": quotas}), encoding="utf-8")
    environment = {
        **os.environ,
        MARK: prefix,
        "KILN_HOME": str(folder / "home"),
        "KILN_CONFIGS": str(folder / "configs"),
        "KILN_POOLS": str(folder / "pools.yaml"),
        "KILN_TENANTS": str(folder / "tenants.yaml"),
        "KILN_TOPICS_PREFIX": prefix,
        "KILN_TOPICS_REQUESTS_PARTITIONS": str(_REQUESTS_PARTITIONS),
        "KILN_STORE_URL": (folder / "store").as_uri(),
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "KAFKA_SESSION_TIMEOUT_MS": str(int(SESSION_SECONDS * 1000)),
        "KAFKA_HEARTBEAT_INTERVAL_MS": "500",
        "PYTHONUNBUFFERED": "1",
        **settings,
    }
    catalogue = Catalogue(TopicSettings(prefix=prefix, requests_partitions=_REQUESTS_PARTITIONS), pools)
    asyncio.run(create_topics(KafkaSettings(bootstrap_servers=bootstrap), catalogue))
    changed = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    (folder / "environment.json").write_text(json.dumps(changed, indent=1), encoding="utf-8")
    return World(folder, prefix, bootstrap, catalogue, environment)


def _quota(limit: Limit) -> dict[str, object]:
    gpu = {"burst": limit.gpu_burst, "per_second": limit.gpu_per_second}
    requests: dict[str, object] = {"burst": limit.burst, "per_second": limit.per_second}
    return requests if limit.gpu_burst is None else requests | {"gpu_seconds": gpu}


def ensure_models(folder: Path) -> None:
    """Make the models, unless every model that a configuration names is there with its digest."""
    catalogue = load_configs(ROOT / "infra" / "configs")
    models = {config.model for file in catalogue.files.values() for config in file.versions.values()}
    kiln = str(Path(sys.executable).with_name("kiln"))
    for model in models:
        verify = [kiln, "models", "verify", str(folder / model.name), "--digest", model.digest]
        if subprocess.run(verify, check=False, capture_output=True).returncode != 0:
            for command in ("make-tiny", "add-shapes"):
                subprocess.run([kiln, "models", command, str(folder)], check=True, capture_output=True)
            return


def _write_configs(folder: Path, more_steps: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "infra" / "configs").glob("*.yaml"):
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        for version in config["versions"].values():
            version["steps"] *= more_steps if version["steps"] > _QUICK_STEPS else 1
        (folder / path.name).write_text(yaml.safe_dump(config), encoding="utf-8")
    write_lock(load_configs(folder), folder)

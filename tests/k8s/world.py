"""What is declared for the run: two pools that differ in what KEDA asks, and configurations that reach every partition
of them; its topics, its environment, and its manifests as they are rendered."""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from admission.stages.route import preferred
from infra.render.declared import read_declared
from infra.render.documents import documents
from schemas.catalogue import load_configs
from schemas.config_file import ConfigFile
from schemas.deployment import DeploymentSettings
from schemas.lock import write_lock
from schemas.topics import Catalogue, TopicSettings
from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.fault.children import Child
from tests.k8s.member import RELEASES
from tests.ports import free_port

NAMESPACE = "kiln"
BY_LAG, BY_SECONDS = "by-lag", "by-seconds"
REPLICAS_MAX = 4
SCALER_PORT = 49700
_PARTITIONS = 2 * REPLICAS_MAX
_JOB_SECONDS, LONG_SECONDS = 1.0, 300.0  # by price; what is long runs until it may end
_STEPS, _LONG_STEPS = 4, 100
# Quick for a test: a real pool goes in as slowly as its pods load, and a window is minutes.
_SCALING = {
    "wait_seconds": 15, "item_seconds": _JOB_SECONDS, "polling_seconds": 1, "cooldown_seconds": 5,
    "in_window_seconds": 20, "in_replicas_per_minute": 120, "out_replicas_per_minute": 120,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    folder: Path
    kafka: KafkaSettings
    catalogue: Catalogue
    environment: Mapping[str, str]

    def admission(self) -> Child:
        """Not started yet, as the others."""
        return self._child("admission", _kiln("admission", "run"), "KILN_ADMISSION_SERVICE_HEALTH_PORT", {})

    def scaler(self) -> Child:
        settings = {"KILN_SCALER_PORT": str(SCALER_PORT)}
        return self._child("scaler", _kiln("scaler"), "KILN_SCALER_HEALTH_PORT", settings)

    def member(self, pool: str, pod: str, releases: Path, in_pod: Mapping[str, str]) -> Child:
        """A GPU consumer in the place of a pod, with what a pod finds of the API server."""
        settings = {
            "KILN_GPU_POOL": pool, "KILN_GPU_POD_NAME": pod, "KILN_GPU_NAMESPACE": NAMESPACE,
            "KILN_GPU_DELETION_COST_SECONDS": "1", RELEASES: str(releases),
        }  # fmt: skip
        command = [sys.executable, "-m", "tests.k8s.member"]
        return self._child(pod, command, "KILN_GPU_HEALTH_PORT", {**settings, **in_pod})

    def _child(self, name: str, command: list[str], port_setting: str, settings: Mapping[str, str]) -> Child:
        port = free_port()
        environment = {**self.environment, port_setting: str(port), **settings}
        return Child(name, command, environment, port, self.folder / f"{name}.log")

    def documents(self) -> list[dict[str, Any]]:
        """All that is rendered of it."""
        settings = DeploymentSettings(
            configs=self.folder / "configs", pools=self.folder / "pools.yaml", tenants=self.folder / "tenants.yaml"
        )
        declared = read_declared(settings)
        return [document for each in documents(declared).values() for document in each]


def make_world(folder: Path, bootstrap: str) -> World:
    """Write the declarations into `folder` and create the topics."""
    (folder / "configs").mkdir(parents=True)
    for pool in (BY_LAG, BY_SECONDS):
        configs = list(_configs(pool))
        hashes = {config.versions[1].config_hash for config in configs}
        assert len(hashes) == len(configs), "two configurations with one hash have one measured price"
        for config in configs:
            text = yaml.safe_dump(config.model_dump(mode="json"))
            (folder / "configs" / f"{config.name}.yaml").write_text(text, encoding="utf-8")
    problems = write_lock(load_configs(folder / "configs"), folder / "configs")
    assert not problems, problems
    (folder / "pools.yaml").write_text(yaml.safe_dump(_pools(bootstrap)), encoding="utf-8")
    tenants = {"default": {"per_second": 1e6, "burst": 1e6}}
    (folder / "tenants.yaml").write_text(yaml.safe_dump(tenants), encoding="utf-8")
    os.environ["KILN_TOPICS_PREFIX"] = NAMESPACE  # the renderer takes it from there, as a person's shell has it
    kafka = KafkaSettings(bootstrap_servers=bootstrap, session_timeout_ms=3000, heartbeat_interval_ms=500)
    environment = {
        **os.environ,
        "KILN_HOME": str(folder / "home"),
        "KILN_CONFIGS": str(folder / "configs"),
        "KILN_POOLS": str(folder / "pools.yaml"),
        "KILN_TENANTS": str(folder / "tenants.yaml"),
        "KILN_STORE_URL": (folder / "store").as_uri(),
        "KILN_ADMISSION_SERVICE_PLACING_SECONDS": "86400",  # the hashes spread the work, and nothing moves
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "KAFKA_SESSION_TIMEOUT_MS": str(kafka.session_timeout_ms),
        "KAFKA_HEARTBEAT_INTERVAL_MS": str(kafka.heartbeat_interval_ms),
        "PYTHONUNBUFFERED": "1",
    }
    settings = DeploymentSettings(pools=folder / "pools.yaml")
    catalogue = Catalogue(TopicSettings(), settings.load_pools())
    asyncio.run(create_topics(kafka, catalogue))
    return World(folder, kafka, catalogue, environment)


def _kiln(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("kiln")), *arguments]


def quick(pool: str) -> list[str]:
    """Names of the configurations of a pool, one for each of its partitions."""
    return [f"{pool}-{partition}" for partition in range(_PARTITIONS)]


def long(pool: str) -> str:
    return f"{pool}-long"


def _configs(pool: str) -> Iterator[ConfigFile]:
    """Each the first that the hashes put where its name says."""
    for partition, name in enumerate(quick(pool)):
        tried = (_config(name, pool, _JOB_SECONDS, seed) for seed in count())
        yield next(each for each in tried if preferred(each.versions[1].config_hash, _PARTITIONS) == partition)
    # A hash of its own, which a price alone does not give: what is measured of the quick ones is not measured of it.
    yield _config(long(pool), pool, LONG_SECONDS, 0, steps=_LONG_STEPS)


def _config(name: str, pool: str, seconds: float, seed: int, *, steps: int = _STEPS) -> ConfigFile:
    version = {
        "family": "sd15", "model": {"name": "tiny", "digest": "sha256:" + "0" * 64}, "steps": steps, "width": 64,
        "height": 64, "bucket": 4, "pool": pool, "guidance_scale": 1 + seed / 100,
        "price": {"gpu_seconds": seconds, "vram_bytes": 1 << 20},
    }  # fmt: skip
    return ConfigFile.model_validate({"name": name, "channels": {"stable": 1}, "versions": {1: version}})


def _pools(bootstrap: str) -> dict[str, Any]:
    pool = {
        "gpu_product": "cpu", "vram_bytes": 1 << 30, "price_usd_per_hour": 2.0, "replicas_max": REPLICAS_MAX,
        "partitions": _PARTITIONS, "load_seconds": 5,
    }  # fmt: skip
    return {
        "pools": {
            BY_LAG: pool | {"scaling": {"signal": "lag", **_SCALING}},
            BY_SECONDS: pool | {"scaling": {"signal": "gpu_seconds", **_SCALING}},
        },
        "cluster": {
            "namespace": NAMESPACE,
            "kafka": {"bootstrap_servers": bootstrap, "security_protocol": "PLAINTEXT", "strimzi_cluster": None},
            "scaler": {"address": f"127.0.0.1:{SCALER_PORT}"},
        },
    }

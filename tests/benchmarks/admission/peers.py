"""The frameworks that do the same with a request: the guarantee that each gives, and how its service is run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.environments import TELEMETRY_OFF
from tests.benchmarks.report import ROOT
from tests.fault.children import Child
from tests.fault.world import World

OURS = "decided once, each accepted request's work at least once and always the same bytes; survives any kill"
# What admission itself imports beside the standard library.
BESIDE = ("pydantic", "pydantic-settings", "pyyaml")

_APPS = "tests.benchmarks.admission.apps"


@dataclass(frozen=True, slots=True)
class Peer:
    """`package` as the extra `bench` names it. `burst`: requests that take it some seconds, and several commits.
    `to_be_beaten`: a bar fails the run where admission is slower."""

    name: str
    package: str
    arguments: tuple[str, ...]
    burst: int
    guarantee: str
    to_be_beaten: bool = False

    @property
    def label(self) -> str:
        """Its name, fit for a file and a topic."""
        return "".join(letter if letter.isalnum() else "_" for letter in self.name.lower())

    def child(self, python: Path, world: World) -> Child:
        """Its service on the requests of `world`, not started yet."""
        command = [str(python), "-m", *self.arguments]
        return Child(self.label, command, variables(world.environment), 0, world.folder / f"{self.label}.log")


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {**environment, **TELEMETRY_OFF, "PYTHONPATH": str(ROOT)}


PEERS = (
    Peer(
        "FastStream",
        "faststream",
        (f"{_APPS}.fast_stream",),
        3_000,
        "at least once, a record at a time; names and buckets in memory, gone with the process",
        to_be_beaten=True,
    ),
    Peer(
        "FastStream, batches",
        "faststream",
        (f"{_APPS}.fast_stream", "--batches"),
        20_000,
        "the same, 500 at a time",
    ),
    Peer(
        "Quix Streams, 0.1 s",
        "quixstreams",
        (f"{_APPS}.quix", "0.1"),
        20_000,
        "exactly once, committed each 0.1 s; work in transactions, so its lag never reads 0",
        to_be_beaten=True,
    ),
    Peer(
        "Quix Streams, 1 s",
        "quixstreams",
        (f"{_APPS}.quix", "1"),
        20_000,
        "the same, committed each second; by default it is each 5 s",
        to_be_beaten=True,
    ),
    Peer(
        "Bytewax",
        "bytewax",
        (f"{_APPS}.bytewax_flow", "10"),
        20_000,
        "state exactly once and work at least once, from a snapshot each 10 s on a local disk",
    ),
)

"""The fuzz on a live broker: python -m tests.fuzz.live --records N --seed S

Mutated records, and batches whose bytes were mutated, go through the admission service in a process of its own, half of
them by each intake; between the halves it is killed. Exits 1 with what is wrong of what was seen.
"""

import argparse
import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException, Producer
from rich.console import Console

from schemas.topics import Catalogue
from streams.kafka.admin import create_topics
from streams.kafka.settings import KafkaSettings
from tests.admission import committed, eventually, lag
from tests.fault.soak.probe import holding
from tests.fault.world import ROOT, broker
from tests.fuzz.account import flaws_of
from tests.fuzz.mutate import Mutator
from tests.fuzz.samples import QUIET, Sample
from tests.fuzz.service import live_catalogue
from tests.fuzz.wire import mutated_batch
from tests.raw_records import produce_raw
from tests.unit.admission.scene import HOME, request

HOME_FOLDER = ROOT / ".kiln" / "fuzz"
_AHEAD = 4000  # records that admission may be behind: its window, and so its memory, follow when they were appended
_RAW_EVERY = 200
_LARGE = 200_000  # sent alone: the broker refuses a whole batch for one record
# Of the second half over the first: by then allocators and caches are warm, and the largest records were there.
_GROWTH_BYTES_MAX = 48 << 20

Intake = Literal["plain", "faust"]


@dataclass
class Live:
    kafka: KafkaSettings
    catalogue: Catalogue
    environment: dict[str, str]
    logs: Path
    seed: int
    refused: int = 0
    sent: int = 0
    resident: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)
        self._mutator = Mutator(self._chance, [])
        options = {
            "bootstrap.servers": self.kafka.bootstrap_servers,
            "message.max.bytes": 8 << 20,
            "linger.ms": 5,
            "log_level": 0,
        }
        self._producers = [Producer(options | {"compression.type": codec}) for codec in ("none", "gzip")]

    @asynccontextmanager
    async def service(self, intake: Intake, *, ending: signal.Signals) -> AsyncIterator["subprocess.Popen[bytes]"]:
        command = [sys.executable, "-m", "tests.fuzz.service", self.catalogue.settings.prefix, intake]
        with (self.logs / f"{intake}.log").open("wb") as output:
            child = subprocess.Popen(  # noqa: ASYNC220 -- nothing else runs yet
                command, env=self.environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield child
            assert child.poll() is None, f"admission ended with {child.returncode}; its log is {output.name}"
            child.send_signal(ending)
            await asyncio.to_thread(child.wait, 180)
        finally:
            child.kill()
            child.wait()

    async def run(self, records: int, say: Any = print) -> list[str]:
        """What is wrong, in sentences."""
        halves: tuple[tuple[Intake, signal.Signals], ...] = (("plain", signal.SIGKILL), ("faust", signal.SIGTERM))
        for intake, ending in halves:
            async with self.service(intake, ending=ending) as child:
                held = self.resident[intake] = []
                for _ in range(10):
                    await self._send(records // 20, child)
                    held.append(holding(child.pid).resident_bytes)
                    say(f"{intake}: {self.sent} records sent, {self.refused} refused, {held[-1] >> 20} MiB held")
                await self._behind(child, at_most=0)
                await self._serves_another(child, f"after-{intake}")
        return [*self._grown(), *await flaws_of(self.kafka, self.catalogue)]

    async def _send(self, records: int, child: "subprocess.Popen[bytes]") -> None:
        for number in range(records):
            sample = self._mutator.sample()
            if number % _RAW_EVERY == 0:
                await self._send_raw()
            self._produce(sample)
            self.sent += 1
            if number % 500 == 0:
                await self._behind(child, at_most=_AHEAD)
        self._flush()

    def _produce(self, sample: Sample) -> None:
        producer = self._chance.choice(self._producers)
        partition = HOME if sample.at_home else HOME + 1
        try:
            producer.produce(
                self.catalogue.requests,
                sample.value,
                sample.key,
                partition,
                headers=list(sample.headers),
                on_delivery=self._delivered,
            )
        except (KafkaException, BufferError):
            self.refused += 1
        if sample.size > _LARGE:
            self._flush()
        producer.poll(0)

    def _delivered(self, error: Any, _: Any) -> None:
        self.refused += error is not None

    def _flush(self) -> None:
        for producer in self._producers:
            assert producer.flush(60) == 0

    async def _send_raw(self) -> None:
        count, batch = mutated_batch(self._chance, self._mutator)
        try:
            await produce_raw(self.kafka, self.catalogue.requests, HOME, batch)
            self.sent += count
        except KafkaError:
            self.refused += count  # brokers look at the checksum and the lengths

    async def _behind(self, child: "subprocess.Popen[bytes]", *, at_most: int) -> None:
        """Wait until admission is."""

        async def near() -> bool:
            assert child.poll() is None, f"admission ended with {child.returncode}"
            with suppress(KafkaException):
                return sum((await asyncio.to_thread(lag, self.kafka, self.catalogue)).values()) <= at_most
            return False

        await eventually(near, seconds=300, what=f"a lag of {at_most} at most")

    async def _serves_another(self, child: "subprocess.Popen[bytes]", request_id: str) -> None:
        """Whatever came before it."""
        self._producers[0].produce(
            self.catalogue.requests, json.dumps(request(request_id, tenant=QUIET)).encode(), None, HOME
        )
        self._flush()
        await self._behind(child, at_most=0)
        decisions = await asyncio.to_thread(
            committed, self.kafka, self.catalogue.decisions, self.catalogue.requests_partitions
        )
        (mine,) = [each.json() for each in decisions if each.key == f"{QUIET}/{request_id}".encode()]
        assert mine["verdict"] == "accepted", mine

    def _grown(self) -> Iterator[str]:
        for intake, held in self.resident.items():
            growth = max(held[5:]) - max(held[:5])
            if growth > _GROWTH_BYTES_MAX:
                yield f"the process with the {intake} intake grew by {growth >> 20} MiB"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.live", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    home = HOME_FOLDER / f"run-{os.getpid()}"
    home.mkdir(parents=True)
    began = time.monotonic()
    with broker(home / "broker", Console(stderr=True)) as bootstrap:
        kafka, catalogue = KafkaSettings(bootstrap_servers=bootstrap), live_catalogue("fuzz")
        environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": bootstrap}
        live = Live(kafka, catalogue, environment, home, options.seed)

        async def run() -> list[str]:
            await create_topics(kafka, catalogue)
            return await live.run(options.records, lambda line: print(line, flush=True))

        flaws = asyncio.run(run())
    print(f"{live.sent} records of which brokers refused {live.refused}, {time.monotonic() - began:.0f} s")
    print(f"flaws: {'; '.join(flaws) or 'none'}")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())

"""One pool of one GPU consumer on a virtual clock, with admission in front of it. No Kafka: a log is a queue here.

Everything that decides is the product's: decide() with its quotas and lanes, the scheduler with its shares, and the
rules of the step loop. What lies between them takes no time.
"""

import json
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from admission.arrival import Arrival
from admission.decide import decide
from admission.settings import AdmissionLimits
from admission.state import State
from admission.verdict import Decided
from admission.world import World
from gpu_consumer.engine.protocol import Batch, Drawn, Ended, Event, Item
from gpu_consumer.engine.virtual.device import VirtualDevice
from gpu_consumer.engine.virtual.loop import VirtualLoop
from gpu_consumer.scheduling.scheduler import Room, Scheduler, Unit
from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.pools import Pool, Pools
from schemas.request import LANES, Lane
from schemas.result import Succeeded
from schemas.tenants import Tenants
from schemas.topics import Catalogue, TopicSettings
from schemas.work import WorkItem, decode_work
from tests.benchmarks.fairness.workload import Ask

BACKLOG_MAX = 512  # pictures of one lane taken, as in the consumer's settings
EPOCH_MS = 1_800_000_000_000
_POOL = "default"
_BIRTH = UUID(int=1)


@dataclass(slots=True)
class Seen:
    """Seconds from asking to the picture, in the order of ending, by tenant; what was refused, by code; and how many
    pictures were made from the start until nobody waited any more."""

    took: dict[str, list[float]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    lanes: Counter[tuple[str, Lane]] = field(default_factory=Counter)
    full_seconds: float = 0.0
    full_pictures: int = 0


def world_of(tenants: Tenants, steps: int, bucket: int, device: VirtualDevice) -> World:
    price = device.full_batch_seconds(bucket, steps)
    version = {
        "family": "sd3", "steps": steps, "guidance_scale": 4.0, "scheduler": "flow-match-euler", "width": 512,
        "height": 512, "bucket": bucket, "model": {"name": "transformer", "digest": "sha256:" + "0" * 64},
        "price": {"gpu_seconds": price, "vram_bytes": 1_000_000_000},
    }  # fmt: skip
    file = ConfigFile.model_validate({"name": "poster", "channels": {"stable": 1}, "versions": {1: version}})
    pool = Pool(gpu_product="H200", vram_bytes=device.memory_bytes, price_usd_per_hour=4.0)
    return World(
        catalogue=Catalogue(TopicSettings(requests_partitions=1), Pools(pools={_POOL: pool})),
        configs=ConfigCatalogue([file]),
        tenants=tenants,
        work_partitions={_POOL: pool.partitions},
        limits=AdmissionLimits(refuse_wait_seconds=1e6),
    )


class House:
    """For one run. `ahead`: pictures sent beyond the slots, so that a free one is taken at once."""

    def __init__(self, world: World, bucket: int, ahead: int, device: VirtualDevice) -> None:
        self._world = world
        self._bucket = bucket
        self._ahead = ahead
        self._state = State(0, world.limits)
        self._state.opened(lambda: _BIRTH, 0, None, EPOCH_MS)
        self._logs: dict[Lane, deque[WorkItem]] = {lane: deque() for lane in LANES}
        self._taken: Counter[Lane] = Counter()
        self._scheduler = Scheduler(0.0)
        self._loop = VirtualLoop(device)
        self._works: dict[str, WorkItem] = {}
        self._asked: dict[str, Ask] = {}
        self._sent: set[str] = set()  # and neither drawn nor ended
        self._seen = Seen()

    def run(self, asks: Sequence[Ask]) -> Seen:
        """Until all have ended, turn after turn of the engine, each with whatever came before it began."""
        seen, now, coming, ended = self._seen, 0.0, 0, 0
        while coming < len(asks) or self._works:
            while coming < len(asks) and asks[coming].arrival <= now:
                self._admit(asks[coming], coming, now)
                coming += 1
            self._fetch(now)
            self._send(now)
            turn = self._loop.turn()
            if turn is None:
                now = max(now, asks[coming].arrival)
                continue
            now += turn.seconds
            for event in (*turn.started, *turn.ended):
                ended += self._hear(event, now)
            if any(self._logs.values()) or len(self._scheduler):
                seen.full_seconds, seen.full_pictures = now, ended
        self._scheduler.check_integrity()
        self._state.check_integrity()
        return seen

    def _admit(self, ask: Ask, offset: int, now: float) -> None:
        body: dict[str, Any] = {
            "tenant": ask.tenant,
            "request_id": f"r{offset}",
            "prompt": "a kiln",
            "config": {"name": "poster"},
        }
        body |= {"priority": ask.lane, "key": ask.key}
        now_ms = EPOCH_MS + int(now * 1000)
        arrival = Arrival(0, offset, now_ms, None, json.dumps(body).encode())
        verdict = decide(arrival, self._state, self._world, now_ms)
        self._state.apply(arrival, verdict)
        self._state.emitted(self._state.mark())
        assert isinstance(verdict, Decided), verdict
        if verdict.decision.work is None:
            self._seen.refused[verdict.decision.code or ""] += 1
            return
        work = decode_work(verdict.decision.work.encode())
        self._works[work.job_id], self._asked[work.job_id] = work, ask
        self._seen.lanes[ask.tenant, work.lane] += 1
        self._logs[work.lane].append(work)

    def _fetch(self, now: float) -> None:
        for lane, log in self._logs.items():
            while log and self._taken[lane] < BACKLOG_MAX:
                self._taken[lane] += 1
                self._scheduler.add(_unit(log.popleft(), now), now)

    def _send(self, now: float) -> None:
        while (room := self._bucket + self._ahead - len(self._sent)) > 0:
            pulse = self._loop.pulse()
            kind = next((self._works[job].config.kind for job in self._sent), None)
            chosen = self._scheduler.take(now, Room(kind, room, pulse.models, not self._sent, room))
            if chosen is None:
                return
            for unit in chosen.units:
                work = self._works[unit.job]
                self._sent.add(unit.job)
                self._loop.send(Batch(work.config, (Item(unit.job, work.prompt, "", 0),)))

    def _hear(self, event: Event, now: float) -> int:
        match event:
            case Drawn(keys):
                self._sent.difference_update(keys)
            case Ended(job, _, share):
                self._sent.discard(job)
                work, ask = self._works.pop(job), self._asked.pop(job)
                self._taken[work.lane] -= 1
                self._scheduler.served(work.tenant, work.lane, share.gpu_seconds - work.price_gpu_seconds)
                said: dict[str, Any] = {"job_id": job, "gpu_seconds": share.gpu_seconds}  # what admission reads of it
                self._state.fold_result(Succeeded.model_construct(**said), self._state.results_next)
                self._seen.took.setdefault(ask.tenant, []).append(now - ask.arrival)
                return 1
        return 0


def _unit(work: WorkItem, now: float) -> Unit:
    config = work.config
    return Unit(
        job=work.job_id, n=0, tenant=work.tenant, lane=work.lane, config_hash=config.config_hash, kind=config.kind,
        model=config.model_key, bucket=config.bucket, joins=True, deadline=now + 86_400.0,
        seconds=config.price.gpu_seconds,
    )  # fmt: skip

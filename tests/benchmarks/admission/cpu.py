"""CPU of a decision, beside bare pydantic validation of the same event, in one process and by turns."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from admission.arrival import Arrival
from admission.decide import decide
from admission.settings import AdmissionLimits
from admission.state import State
from admission.world import World
from schemas.catalogue import load_configs
from schemas.partition import partition_of
from schemas.pools import Pool, Pools
from schemas.request import GenerationRequest
from schemas.tenants import Quota, Tenants
from schemas.topics import Catalogue, TopicSettings
from tests.benchmarks.load import TENANTS, request
from tests.benchmarks.report import ROOT

_EVENTS = 4000
_ROUNDS = 9
_BLOCK = 50
_PARTITION = 0


@dataclass(frozen=True, slots=True)
class Cpu:
    """Seconds an event."""

    decision: float
    validation: float


def decision_and_validation(prompts: Sequence[str], configs: Sequence[str]) -> Cpu:
    """The least of a few rounds: neighbours only add."""
    world = _world()
    arrivals = _arrivals(world, prompts, configs)
    decisions, validations = [], []
    for _ in range(_ROUNDS):
        decisions.append(_deciding(arrivals, world))
        validations.append(_cpu(lambda: [_validate(arrival) for arrival in arrivals]) / len(arrivals))
    return Cpu(min(decisions), min(validations))


def _world() -> World:
    """A deployment that refuses nothing."""
    pool = Pool(gpu_product="cpu", vram_bytes=2 << 30, price_usd_per_hour=0, replicas_max=2, partitions=4)
    return World(
        catalogue=Catalogue(TopicSettings(), Pools(pools={"default": pool})),
        configs=load_configs(ROOT / "infra" / "configs"),
        tenants=Tenants(tenants=dict.fromkeys(TENANTS, Quota(burst=1e9, per_second=1e6))),
        work_partitions={"default": pool.partitions},
        limits=AdmissionLimits(),
    )


def _arrivals(world: World, prompts: Sequence[str], configs: Sequence[str]) -> list[Arrival]:
    """Good requests of one partition, as they stand in its log."""
    partitions, now_ms = world.catalogue.requests_partitions, _now_ms()
    sent = (
        (tenant.encode(), body) for tenant, body in (request(number, prompts, configs) for number in range(_EVENTS))
    )
    mine = [(key, body) for key, body in sent if partition_of(key, partitions) == _PARTITION]
    return [Arrival(_PARTITION, offset, now_ms, key, body) for offset, (key, body) in enumerate(mine)]


def _deciding(arrivals: Sequence[Arrival], world: World) -> float:
    """Upon a state in which the verdicts of all former blocks were made true; that itself is not counted. By blocks, as
    validation is one: to ask for a thread's time is a system call, and a tenth of what a decision takes."""
    state, now_ms, seconds = State(_PARTITION, world.limits), _now_ms(), 0.0
    state.opened(uuid4, 0, None, now_ms)
    for start in range(0, len(arrivals), _BLOCK):
        block = arrivals[start : start + _BLOCK]
        seconds += _cpu(lambda: [decide(arrival, state, world, now_ms) for arrival in block])  # noqa: B023 - called here
        for arrival in block:
            state.apply(arrival, decide(arrival, state, world, now_ms))
    return seconds / len(arrivals)


def _validate(arrival: Arrival) -> GenerationRequest:
    return GenerationRequest.model_validate_json(arrival.value or b"")


def _cpu(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""A small deployment and one of its requests partitions, for tests of pure admission."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from admission.arrival import Arrival
from admission.decide import decide
from admission.settings import AdmissionLimits
from admission.state import State
from admission.verdict import DeadLetter, Decided, Verdict
from admission.world import World
from schemas.catalogue import ConfigCatalogue
from schemas.composed import decision_record
from schemas.config_file import ConfigFile
from schemas.decision import Decision, decode_decision
from schemas.names import request_name
from schemas.pools import Pool, Pools
from schemas.result import Failed, Rejected, parse_result
from schemas.tenants import Quota, Tenants
from schemas.topics import Catalogue, TopicSettings
from schemas.work import WorkItem, decode_work

NOW_MS = 1_800_000_000_000
BIRTH = UUID("6d1c4c3a-5f0e-4f53-9a53-0c8f4a3b2d11")
PARTITIONS = 4
HOME = 1  # of the tenants alice and ivan
TENANT = "alice"
DIGEST = "sha256:" + "a" * 64


def config_file(name: str, *, retired: bool = False, **changes: Any) -> ConfigFile:
    version = {
        "family": "sd15",
        "model": {"name": "tiny", "digest": DIGEST},
        "steps": 4,
        "guidance_scale": 5.0,
        "width": 64,
        "height": 64,
        "price": {"gpu_seconds": 2.0, "vram_bytes": 1 << 30},
        **changes,
    }
    return ConfigFile.model_validate(
        {"name": name, "channels": {"stable": 1}, "versions": {1: version, 2: {**version, "retired": retired}}}
    )


def make_world(
    *,
    work_partitions: Mapping[str, int | None] | None = None,
    tenants: Tenants | None = None,
    cancelled: Mapping[bytes, int] | None = None,
    **limits: Any,
) -> World:
    pool = Pool(gpu_product="H200", vram_bytes=8 << 30, price_usd_per_hour=1.0)
    configs = [
        config_file("sketch", retired=True),
        config_file("huge", price={"gpu_seconds": 2.0, "vram_bytes": 9 << 30}),
        config_file("slow", price={"gpu_seconds": 3600.0, "vram_bytes": 1 << 30}),
        config_file("stray", pool="nowhere"),
        config_file("many", max_images=64),
    ]
    return World(
        catalogue=Catalogue(TopicSettings(requests_partitions=PARTITIONS), Pools(pools={"default": pool})),
        configs=ConfigCatalogue(configs),
        tenants=tenants or Tenants(tenants={name: Quota(per_second=1.0, burst=5.0) for name in (TENANT, "ivan")}),
        work_partitions={"default": 8} if work_partitions is None else work_partitions,
        limits=AdmissionLimits(**limits),
        cancelled=cancelled or {},
    )


def request(request_id: str = "r1", **changes: Any) -> dict[str, Any]:
    body = {"request_id": request_id, "tenant": TENANT, "prompt": "a kiln at dusk", "config": {"name": "sketch"}}
    return {key: value for key, value in {**body, **changes}.items() if value is not ...}


def arrival(
    value: bytes | Mapping[str, Any] | None,
    offset: int = 0,
    *,
    key: bytes | None = None,
    at_ms: int = NOW_MS,
    partition: int = HOME,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> Arrival:
    body = json.dumps(value).encode() if isinstance(value, Mapping) else value
    return Arrival(partition, offset, at_ms, key, body, headers)


def fresh_state(**limits: Any) -> State:
    state = State(HOME, AdmissionLimits(**limits))
    assert state.opened(lambda: BIRTH, 0, None, NOW_MS) == []
    return state


class Partition:
    """One requests partition and its logs, kept as the host keeps them: a transaction a step."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or make_world()
        self.state = State(HOME, self.world.limits)
        self.state.opened(lambda: BIRTH, 0, None, NOW_MS)
        self.decisions: list[tuple[bytes, tuple[tuple[str, bytes], ...], bytes]] = []
        self.tenants: list[tuple[bytes, bytes | None]] = []
        self.usage: list[tuple[bytes, bytes]] = []
        self.produced: list[Decision] = []
        self.results_end = 0
        self.log()

    def send(self, value: bytes | Mapping[str, Any] | None, *, at_ms: int = NOW_MS, **more: Any) -> Verdict:
        """Decide the next request, log it, produce it."""
        verdict = self.decide(arrival(value, self.state.next, at_ms=at_ms, **more))
        self.log()
        self.emit()
        return verdict

    def decide(self, record: Arrival) -> Verdict:
        verdict = decide(record, self.state, self.world, record.appended_ms)
        if isinstance(verdict, Decided):
            decision = verdict.decision
            self.decisions.append(
                (request_name(decision.tenant, decision.request_id), decision.headers(), decision_record(decision))
            )
        self.state.apply(record, verdict)
        return verdict

    def log(self) -> None:
        self.tenants += self.state.drain_changes()
        self.usage += self.state.drain_left()

    def emit(self) -> None:
        since = self.state.emitted_through
        decided = [decode_decision(value) for _, _, value in self.decisions]
        self.produced += [each for each in decided if each.verdict == "accepted" and each.offset >= since]
        self.state.emitted(self.state.mark())

    def finish(self, job_id: str, gpu_seconds: float = 2.0, status: str = "failed") -> None:
        self.state.fold_result(ended(self.state, job_id, status, gpu_seconds), self.results_end)
        self.results_end += 1

    def fold(self, *, compacted: bool = False, tenants_first: bool = True) -> State:
        """What another process makes of the logs; not opened yet."""
        state = State(HOME, self.world.limits)
        tenants = list(dict(self.tenants).items()) if compacted else self.tenants
        if tenants_first:
            self._fold_tenants(state, tenants)
        for key, headers, value in self.decisions:
            state.fold_decision(key, headers, value)
        if not tenants_first:
            self._fold_tenants(state, tenants)
        return state

    @staticmethod
    def _fold_tenants(state: State, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in records:
            state.fold_tenants(key, value)

    def take_over(self, now_ms: int = NOW_MS, **how: Any) -> tuple[State, list[Decision]]:
        state = self.fold(**how)
        again = state.opened(lambda: UUID(int=7), self.state.next, self.state.next, now_ms)
        return state, again


def snapshot(state: State) -> dict[str, Any]:
    """All that a state knows, in a form that can be compared."""
    return {
        "cursor": state.cursor(),
        "names": {key: state.name(key, state.clock_ms) for key in state.names},
        "outstanding": dict(state.outstanding),
        "accounts": {name: account.record() for name, account in state.accounts()},
    }


def ended(state: State, job_id: str, status: str, gpu_seconds: float) -> Any:
    """The result of a job, known or not: with all that a result of any status has."""
    job = state.outstanding.get(job_id)
    body: dict[str, Any] = {
        "status": status,
        "code": "generation_error",
        "message": "it ended",
        "tenant": job.tenant if job else TENANT,
        "request_id": job.request_id if job else "unknown",
        "job_id": job_id,
        "finished_at": "2027-01-15T08:00:00Z",
        "deadline": "2027-01-15T08:00:00Z",
        "config": {"name": "sketch", "version": 1, "hash": "0" * 64, "model_digest": DIGEST},
        "gpu_seconds": gpu_seconds,
        "artifacts": [],
        "seed": 1,
        "batch_size": 1,
        "bucket": 1,
        "environment": {"device": "cpu"},
        "peak_vram_bytes": 0,
    }
    return parse_result(json.dumps(body).encode())


def failed(state: State, job_id: str, gpu_seconds: float) -> Failed:
    result = ended(state, job_id, "failed", gpu_seconds)
    assert isinstance(result, Failed)
    return result


def decided(verdict: Verdict) -> Decision:
    assert isinstance(verdict, Decided), verdict
    return verdict.decision


def accepted(verdict: Verdict) -> WorkItem:
    decision = decided(verdict)
    assert decision.verdict == "accepted", decision.message
    assert decision.work is not None
    return decode_work(decision.work.encode())


def rejected(verdict: Verdict) -> Rejected:
    assert isinstance(verdict, Decided), verdict
    assert verdict.decision.verdict == "rejected"
    assert isinstance(verdict.result, Rejected)
    return verdict.result


def dead(verdict: Verdict) -> DeadLetter:
    assert isinstance(verdict, DeadLetter), verdict
    return verdict

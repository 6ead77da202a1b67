"""What every peer does with a request: our own decision, and the work that follows from it.

State is what admission keeps of a partition, in this process alone. What of it outlives the process is the framework's
own affair, and what its guarantee is made of.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from time import time
from uuid import uuid4

from admission.arrival import Arrival
from admission.decide import decide
from admission.settings import AdmissionLimits
from admission.state import State
from admission.verdict import Decided
from admission.world import World
from schemas.decision import Decision
from schemas.deployment import DeploymentSettings
from schemas.work import HEADER_DEADLINE_MS, HEADER_JOB, HEADER_SCHEMA

BOOTSTRAP = os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "")
FOLDER = Path(os.environ.get("KILN_HOME", "."))  # for whatever a framework keeps on disk


@dataclass(frozen=True, slots=True)
class Work:
    """One record to be produced, and the decision that it follows from."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    decision: Decision


class Door:
    """The deployment is read from the environment, as admission itself reads it."""

    def __init__(self) -> None:
        declared = DeploymentSettings()
        catalogue = declared.catalogue()
        self._world = World(
            catalogue=catalogue,
            configs=declared.load_configs(),
            tenants=declared.load_tenants(),
            work_partitions={name: pool.partitions for name, pool in catalogue.pools.items()},
            limits=AdmissionLimits(),
        )
        self._states: dict[tuple[int, bytes | None], State] = {}
        self.catalogue = catalogue

    @property
    def group(self) -> str:
        return self.catalogue.admission_group

    @property
    def work_topics(self) -> list[str]:
        return [spec.name for spec in self.catalogue.specs() if ".work." in spec.name]

    def admit(
        self,
        partition: int,
        offset: int,
        appended_ms: int,
        key: bytes | None,
        value: bytes | None,
        *,
        order: bytes | None = None,
    ) -> Work:
        """The benchmark sends good requests alone. Raises ValueError at any other. `order`: the key whose records come
        in order, where those of a partition do not."""
        state = self._state(partition, order)
        arrival = Arrival(partition, offset, appended_ms, key, value)
        verdict = decide(arrival, state, self._world, int(time() * 1000))
        state.apply(arrival, verdict)
        if not isinstance(verdict, Decided) or verdict.decision.work is None:
            raise ValueError(f"requests[{partition}] offset {offset} was not accepted: {verdict}")
        return self._work(verdict.decision)

    def _state(self, partition: int, order: bytes | None) -> State:
        state = self._states.get((partition, order))
        if state is None:
            state = self._states[partition, order] = State(partition, self._world.limits)
            state.opened(uuid4, 0, None, 0)
        return state

    def _work(self, decision: Decision) -> Work:
        assert decision.route is not None
        assert decision.work is not None
        return Work(
            topic=self.catalogue.work(decision.route.pool, decision.route.lane),
            partition=decision.route.partition,
            key=decision.job_id.encode(),
            value=decision.work.encode(),
            headers=(
                (HEADER_JOB, decision.job_id.encode()),
                (HEADER_DEADLINE_MS, str(decision.deadline_ms).encode()),
                (HEADER_SCHEMA, b"1"),
            ),
            decision=decision,
        )

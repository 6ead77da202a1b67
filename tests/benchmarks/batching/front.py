"""What stands in front of an engine in the consumer: the scheduler, asked when the engine has room. Not its Kafka."""

from collections.abc import Mapping

from gpu_consumer.engine.protocol import Batch, Drawn, Ended, Event, Item, Pulse, Refused
from gpu_consumer.scheduling.scheduler import Room, Scheduler, Unit
from schemas.config import GenerationConfig
from tests.benchmarks.batching.workload import Job

_DAY = 86_400.0


class Front:
    """`ahead`: so many are sent before they have a slot, so that none of a free slot's time is lost."""

    def __init__(self, configs: Mapping[int, GenerationConfig], *, ahead: int) -> None:
        self._configs = configs
        self._config = next(iter(configs.values()))
        self._ahead = ahead
        self._scheduler = Scheduler(0.0)
        self._steps: dict[str, int] = {}
        self._sent: set[str] = set()  # and neither drawn nor ended

    @property
    def waiting(self) -> int:
        """Jobs that were added and not sent."""
        return len(self._scheduler)

    def add(self, job: Job, now: float) -> None:
        config = self._configs[job.steps]
        self._steps[str(job.number)] = job.steps
        unit = Unit(
            job=str(job.number),
            n=0,
            tenant="one",
            lane="standard",
            config_hash=config.config_hash,
            kind=config.kind,
            model=config.model_key,
            bucket=config.bucket,
            joins=config.batching == "step",
            deadline=now + _DAY,
            seconds=config.price.gpu_seconds,
        )
        self._scheduler.add(unit, now)

    def sends(self, now: float, pulse: Pulse) -> list[Batch]:
        """What the engine is to be sent now."""
        batches = []
        while (room := (pulse.slots or self._config.bucket) + self._ahead - len(self._sent)) > 0:
            idle = not self._sent
            kind = None if idle else self._config.kind
            chosen = self._scheduler.take(now, Room(kind, room, pulse.models, idle, room))
            if chosen is None:
                break
            for unit in chosen.units:
                steps = self._steps.pop(unit.job)
                batches.append(Batch(self._configs[steps], (Item(unit.job, f"picture {unit.job}", "", int(unit.job)),)))
                self._sent.add(unit.job)
        return batches

    def hear(self, event: Event) -> None:
        match event:
            case Drawn(keys) | Refused(keys):
                self._sent.difference_update(keys)
            case Ended(key):
                self._sent.discard(key)

    def check(self) -> None:
        self._scheduler.check_integrity()

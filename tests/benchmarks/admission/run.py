"""One run: the same requests through the copy loop, through admission by each intake, and through each peer."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from tests.benchmarks.admission import takeover
from tests.benchmarks.admission.measuring import Figures, Service, measure
from tests.benchmarks.admission.peers import BESIDE, Peer
from tests.benchmarks.environments import environment
from tests.benchmarks.load import Publisher, Watcher
from tests.benchmarks.services import copy_loop, deployment, running, start, work_of
from tests.fault.plan import Kind
from tests.fault.waiting import Deadline, TooLate
from tests.fault.world import World

CONFIGS = ("sketch", "painting", "poster", "shapes")
_ROUNDS, _ROUNDS_OF_NAMES = 3, 5
_BURST, _BURST_OF_COPIES = 20_000, 40_000
_BURSTS_SECONDS = 15.0  # of one service, on a machine that is busy otherwise


class Failed(Exception):
    """A service did not do what it was asked. One sentence."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Seconds from SIGKILL of the only owner to the first decision, and to one of every partition."""

    first: float
    last: float
    opening: takeover.Opening


@dataclass(slots=True)
class Run:
    """Everything on one broker, one service at a time beside the loop that copies and validates, by one deadline."""

    bootstrap: str
    folder: Path
    prompts: Sequence[str]
    deadline: Deadline
    console: Console
    figures: dict[str, Figures] = field(default_factory=dict)
    loop: Service | None = None

    @contextmanager
    def beside_copies(self, name: str) -> Iterator[None]:
        """The validating loop, which runs until the end."""
        world = self._world(name, {})
        with copy_loop(world, validating=True) as (watcher, pid):
            self.loop = self._service(world, watcher, pid)
            self._measure(name, self.loop, length=_BURST_OF_COPIES)
            yield

    def copy(self, name: str) -> None:
        """The loop that believes its records."""
        world = self._world(name, {})
        with copy_loop(world, validating=False) as (watcher, pid):
            self._measure(name, self._service(world, watcher, pid), length=_BURST_OF_COPIES)

    def admission(self, name: str, intake: str) -> None:
        world = self._world(name, {"KILN_ADMISSION_SERVICE_INTAKE": intake})
        owner = world.child(Kind.ADMISSION, 0, {})
        with running([owner], self.deadline), closing(Watcher(self.bootstrap, work_of(world))) as watcher:
            start(owner, self.bootstrap, world.catalogue.admission_group, self.deadline)
            self._measure(name, self._service(world, watcher, owner.pid), length=_BURST)

    def admission_until_killed(self, name: str, intake: str, names: int) -> Takeover:
        """The same with bursts of so many requests in all, whose names are in the window when the owner is killed.
        Raises Failed where nobody takes over; what it could carry is noted before."""
        world = self._world(name, {"KILN_ADMISSION_SERVICE_INTAKE": intake})
        owner, heir = (world.child(Kind.ADMISSION, number, {}) for number in range(2))
        with running([owner, heir], self.deadline), closing(Watcher(self.bootstrap, work_of(world))) as watcher:
            start(owner, self.bootstrap, world.catalogue.admission_group, self.deadline)
            service = self._service(world, watcher, owner.pid)
            length = -(-names // _ROUNDS_OF_NAMES)
            self._measure(name, service, length=length, rounds=_ROUNDS_OF_NAMES, seconds=math.inf)
            try:
                first, last = takeover.kill_and_take_over(owner, heir, service.publisher, watcher, self.deadline)
            except TooLate as error:
                raise Failed(f"{name}: {error}; see {heir.log}") from error
        return Takeover(first, last, takeover.opening(world))

    def peer(self, peer: Peer) -> None:
        """Blocks for minutes where its environment is not made yet. Raises NotInstallable and Failed."""
        python = environment(peer.package, peer.package, beside=BESIDE)
        world = self._world(peer.name, {})
        child = peer.child(python, world)
        child.start()
        try:
            with closing(Watcher(self.bootstrap, work_of(world))) as watcher:
                self._measure(peer.name, self._service(world, watcher, child.pid), length=peer.burst)
        except (TimeoutError, TooLate) as error:
            raise Failed(f"{peer.name}: {error}; see {child.log}") from error
        finally:
            child.destroy()

    def _service(self, world: World, watcher: Watcher, pid: int) -> Service:
        publisher = Publisher(self.bootstrap, world.catalogue.requests, prompts=self.prompts, configs=CONFIGS)
        return Service(publisher, watcher, pid)

    def _measure(
        self, name: str, service: Service, *, length: int, rounds: int = _ROUNDS, seconds: float = _BURSTS_SECONDS
    ) -> None:
        assert self.loop is not None, "begin with the loop"
        found = measure(service, self.loop, self.deadline, rounds=rounds, length=length, seconds=seconds)
        self.figures[name] = found
        bursts = ", ".join(f"{rate:,.0f}" for rate in found.rates)
        self.console.print(
            f"{name}: {bursts} events/s, {found.share:.2f} of the loop beside it, {found.cpu * 1e6:.0f} µs of CPU each"
        )

    def _world(self, name: str, settings: Mapping[str, str]) -> World:
        label = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
        return deployment(self.bootstrap, self.folder, label, settings)

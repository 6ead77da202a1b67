"""One run: the same requests through the copy loop, through admission by each intake, and through each peer."""

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from tests.benchmarks.admission import takeover
from tests.benchmarks.admission.measuring import Figures, measure
from tests.benchmarks.admission.peers import BESIDE, Peer
from tests.benchmarks.environments import environment
from tests.benchmarks.load import Publisher, Watcher
from tests.benchmarks.services import copy_loop, deployment, running, start, work_of
from tests.fault.plan import Kind
from tests.fault.waiting import Deadline, TooLate
from tests.fault.world import World

CONFIGS = ("sketch", "painting", "poster", "shapes")
_ROUNDS, _ROUNDS_OF_NAMES = 3, 5
_BURST_OF_COPIES = 60_000
_BURST = 20_000
_BURSTS_SECONDS = 15.0  # of one service, on a machine that is busy otherwise


class PeerFailed(Exception):
    """A peer's service did not do what it was asked. One sentence."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Seconds from SIGKILL of the only owner to the first decision, and to one of every partition."""

    first: float
    last: float
    opening: takeover.Opening


@dataclass(slots=True)
class Run:
    """Everything on one broker, one service at a time, by one deadline."""

    bootstrap: str
    folder: Path
    prompts: Sequence[str]
    deadline: Deadline
    console: Console
    figures: dict[str, Figures] = field(default_factory=dict)

    def copy(self, name: str, *, validating: bool) -> None:
        """Asked again, it adds to what was measured: the machine may have changed meanwhile."""
        world = self._world(f"{name} {len(self.figures)}", {})
        with copy_loop(world, validating=validating) as (watcher, pid):
            former = self.figures.get(name)
            self._measure(name, world, watcher, pid, length=_BURST_OF_COPIES)
        if former is not None:
            again = self.figures[name]
            self.figures[name] = replace(again, rates=former.rates + again.rates)

    def admission(self, name: str, intake: str) -> None:
        world = self._world(name, {"KILN_ADMISSION_SERVICE_INTAKE": intake})
        owner = world.child(Kind.ADMISSION, 0, {})
        with running([owner], self.deadline), closing(Watcher(self.bootstrap, work_of(world))) as watcher:
            start(owner, self.bootstrap, world.catalogue.admission_group, self.deadline)
            self._measure(name, world, watcher, owner.pid, length=_BURST)

    def admission_until_killed(self, name: str, intake: str, names: int) -> Takeover:
        """The same with bursts of so many requests in all, whose names are in the window when the owner is killed."""
        world = self._world(name, {"KILN_ADMISSION_SERVICE_INTAKE": intake})
        owner, heir = (world.child(Kind.ADMISSION, number, {}) for number in range(2))
        with running([owner, heir], self.deadline), closing(Watcher(self.bootstrap, work_of(world))) as watcher:
            start(owner, self.bootstrap, world.catalogue.admission_group, self.deadline)
            length = -(-names // _ROUNDS_OF_NAMES)
            publisher = self._measure(
                name, world, watcher, owner.pid, rounds=_ROUNDS_OF_NAMES, length=length, seconds=math.inf
            )
            first, last = takeover.kill_and_take_over(owner, heir, publisher, watcher, self.deadline)
        return Takeover(first, last, takeover.opening(world))

    def peer(self, peer: Peer) -> None:
        """Blocks for minutes where its environment is not made yet. Raises NotInstallable and PeerFailed."""
        python = environment(peer.package, peer.package, beside=BESIDE)
        world = self._world(peer.name, {})
        child = peer.child(python, world)
        child.start()
        try:
            with closing(Watcher(self.bootstrap, work_of(world))) as watcher:
                self._measure(peer.name, world, watcher, child.pid, length=peer.burst)
        except (TimeoutError, TooLate) as error:
            raise PeerFailed(f"{peer.name}: {error}; see {child.log}") from error
        finally:
            child.destroy()

    def _measure(
        self,
        name: str,
        world: World,
        watcher: Watcher,
        pid: int,
        *,
        length: int,
        rounds: int = _ROUNDS,
        seconds: float = _BURSTS_SECONDS,
    ) -> Publisher:
        publisher = Publisher(self.bootstrap, world.catalogue.requests, prompts=self.prompts, configs=CONFIGS)
        found = self.figures[name] = measure(
            publisher, watcher, pid, self.deadline, rounds=rounds, length=length, seconds=seconds
        )
        bursts = ", ".join(f"{rate:,.0f}" for rate in found.rates)
        self.console.print(f"{name}: {bursts} events/s, {found.cpu * 1e6:.0f} µs of CPU an event")
        return publisher

    def _world(self, name: str, settings: Mapping[str, str]) -> World:
        label = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
        return deployment(self.bootstrap, self.folder, label, settings)

"""What will happen in a run: requests and faults in acts, the same for the same seed. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.fault import wishes
from tests.fault.wishes import Wish


class Kind(StrEnum):
    ADMISSION = "admission"
    GPU = "gpu-consumer"


class Blow(StrEnum):
    KILL = "SIGKILL"
    FREEZE = "SIGSTOP"
    RESET = "reset"  # everything is stopped, both groups go back to the earliest offset


@dataclass(frozen=True, slots=True)
class Fault:
    """One blow. A frozen process wakes after `asleep_seconds`; a whole group freezes with its engine."""

    blow: Blow
    kind: Kind = Kind.ADMISSION
    victim: int = 0
    asleep_seconds: float = 0.0
    whole_group: bool = False
    sigkill: bool = False  # of a reset: how everything is stopped

    def __str__(self) -> str:
        match self.blow:
            case Blow.KILL:
                return f"SIGKILL {self.kind} {self.victim}"
            case Blow.FREEZE:
                whole = " with its engine" if self.whole_group else ""
                return f"SIGSTOP {self.kind} {self.victim}{whole} for {self.asleep_seconds:.1f} s"
            case Blow.RESET:
                return f"stop everything by {'SIGKILL' if self.sigkill else 'SIGTERM'} and reset both groups"


@dataclass(frozen=True, slots=True)
class Sending:
    """A record within its act. `of` names an earlier sending whose very bytes are sent again."""

    number: int
    wish: Wish
    after_seconds: float
    of: int | None = None
    astray: bool = False  # on another partition than Kafka's partitioner would choose
    transactional: bool = False  # by a producer that commits it: readers meet its marker


@dataclass(frozen=True, slots=True)
class Act:
    """Requests spread over a few seconds; then, once its victim holds partitions, a burst, and the blow within it."""

    sendings: Sequence[Sending]
    burst: Sequence[Sending]
    fault: Fault | None
    fault_after_seconds: float
    blow_after_burst_seconds: float
    aborted: bool = False  # somebody's transaction is aborted in requests and work: offsets that nobody delivers

    @property
    def records(self) -> list[Sending]:
        return [*self.sendings, *self.burst]


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    acts: Sequence[Act]

    @property
    def faults(self) -> list[Fault]:
        return [act.fault for act in self.acts if act.fault is not None]


KILLS = 5  # of each kind
_ACT_SECONDS = (2.0, 3.5)
# A batch of admission takes some 10 to 50 ms, one of a GPU consumer, waiting included, up to a second.
_WITHIN_SECONDS = {
    Kind.ADMISSION: (0.0, 0.005, 0.01, 0.02, 0.04, 0.08),
    Kind.GPU: (0.05, 0.2, 0.35, 0.5, 0.8, 1.2),
}


def make_plan(seed: int, *, requests: int, processes: int, session_seconds: float) -> Plan:
    """`requests` names, and a fifth more records that repeat, conflict or cannot be read."""
    dice = random.Random(seed)
    faults = _faults(dice, processes, session_seconds)
    records = _records(dice, requests)
    ends: list[Fault | None] = [*faults, None]
    share = -(-len(records) // len(ends))
    acts = []
    for i, fault in enumerate(ends):
        length = dice.uniform(*_ACT_SECONDS)
        chosen = records[i * share : (i + 1) * share]
        moments = sorted(dice.uniform(0, length) for _ in chosen)
        sendings = [
            Sending(i * share + k, wish, moment, of, astray, transactional=dice.random() < 0.1)
            for k, ((wish, of, astray), moment) in enumerate(zip(chosen, moments, strict=True))
        ]
        calm = len(sendings) // 2 if fault is not None else len(sendings)
        within = dice.choice(_WITHIN_SECONDS[fault.kind]) if fault is not None else 0.0
        aborted = dice.random() < 0.3
        acts.append(Act(sendings[:calm], sendings[calm:], fault, dice.uniform(0.2, length), within, aborted))
    return Plan(seed, acts)


def _faults(dice: random.Random, processes: int, session_seconds: float) -> list[Fault]:
    """Five kills and one freeze of each kind in any order, and one reset in the middle half."""
    faults = []
    for kind in Kind:
        faults += [Fault(Blow.KILL, kind, dice.randrange(processes)) for _ in range(KILLS)]
        asleep = session_seconds + dice.uniform(1.0, 4.0)
        faults.append(Fault(Blow.FREEZE, kind, dice.randrange(processes), asleep, dice.random() < 0.5))
    dice.shuffle(faults)
    middle = len(faults) // 4, 3 * len(faults) // 4
    faults.insert(dice.randint(*middle), Fault(Blow.RESET, sigkill=dice.random() < 0.5))
    return faults


def _records(dice: random.Random, requests: int) -> list[tuple[Wish, int | None, bool]]:
    """(wish, number of the record it repeats, astray) in the order of sending."""
    records: list[tuple[Wish, int | None, bool]] = []
    named: list[int] = []
    while len(named) < requests:
        number = len(records)
        roll = dice.random()
        recent = [i for i in named[-40:] if _stays(*records[i])]
        of = None
        if roll < 0.06 and recent:
            of = dice.choice(recent)
            wish = records[of][0]
        elif roll < 0.09 and recent:
            before = records[dice.choice(recent)][0]
            if before.deadline_after_seconds is not None:
                continue  # its bytes are not known yet
            wish = Wish(before.meaning, before.key, spaced=True)
        elif roll < 0.12 and recent:
            wish = wishes.conflicting(dice, records[dice.choice(recent)][0])
        elif roll < 0.15:
            wish = wishes.garbage(dice, number)
        else:
            wish = _new(dice, number)
            named.append(number)
        records.append((wish, of, wish.meaning.name is not None and dice.random() < 0.05))
    return records


def _stays(wish: Wish, of: int | None, astray: bool) -> bool:
    """Whether the record is at home where it is sent: only then it surely comes before what conflicts with it."""
    name = wish.meaning.name
    return not astray and name is not None and wish.key == name[0].encode()


def _new(dice: random.Random, number: int) -> Wish:
    roll = dice.random()
    if roll < 0.08:
        return wishes.invalid(dice, number)
    if roll < 0.10:
        return wishes.stranger(dice, number)
    if roll < 0.12:
        return wishes.miskeyed(dice, number)
    if roll < 0.20:
        return wishes.twin(dice, number)
    return wishes.good(dice, number)

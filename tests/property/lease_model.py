"""The lease protocol as a small pure model: what a broker, a store and two owners do, one step at a time.

A frozen owner is one that takes no step, a killed one has forgotten everything, a zombie is one that goes on without
the partition. Every fault can come between any two steps. `Rules` are what the protocol consists of; each can be left
out, to show that it is needed.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto


@dataclass(frozen=True)
class Rules:
    fence: bool = True  # one transactional.id a partition, so that opening fences; else one an opening
    open_at_assignment: bool = True  # else when the intake delivers something
    opening_commit: bool = True  # the opening ends in a transaction, unconditionally
    log_is_truth: bool = True  # else the group's offset says where to go on
    publish_stored: bool = True  # else what this attempt has made
    log_before_emitting: bool = True
    void_on_doubt: bool = True  # else the transaction is tried again


class Fenced(Exception):
    """The broker knows a newer epoch of this id."""


@dataclass(frozen=True)
class Change:
    """One transaction: decisions by input offset, their outputs, the cursor, and the group's offset."""

    decisions: dict[int, int]
    next: int
    emitted: int


@dataclass
class Broker:
    inputs: int = 0
    group: int = 0
    assigned: int | None = None
    epochs: Counter[str] = field(default_factory=Counter)
    pending: dict[str, Change] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)
    outputs: list[tuple[int, int]] = field(default_factory=list)
    work: list[tuple[int, int]] = field(default_factory=list)  # written outside transactions
    store: dict[int, int] = field(default_factory=dict)  # the first attempt at an input stays

    def init(self, name: str) -> int:
        self.pending.pop(name, None)
        self.epochs[name] += 1
        return self.epochs[name]

    def expire(self) -> None:
        """The broker's own time-out aborts what is open, and fences who opened it."""
        for name in list(self.pending):
            self.init(name)

    def send(self, name: str, epoch: int, change: Change) -> None:
        if self.epochs[name] != epoch:
            raise Fenced
        self.pending[name] = change

    def commit(self, name: str, epoch: int) -> None:
        if self.epochs[name] != epoch or name not in self.pending:
            raise Fenced
        change = self.pending.pop(name)
        self.log.append(change)
        self.outputs.extend(change.decisions.items())
        self.group = change.next


class Stage(Enum):
    CLOSED = auto()
    CHECKED = auto()  # was a live member a moment ago
    FENCED = auto()
    FOLDED = auto()
    IDLE = auto()
    BUILT = auto()
    SENT = auto()
    COMMITTED = auto()


class Owner:
    def __init__(self, number: int, broker: Broker, rules: Rules) -> None:
        self.number = number
        self.broker = broker
        self.rules = rules
        self.attempts = 0
        self.openings = 0
        self.forget()

    def forget(self) -> None:
        """What death does, and doubt."""
        self.stage = Stage.CLOSED
        self.delivered_from: int | None = None

    def step(self, batch: int = 2) -> bool:
        """Do one thing. False where there is nothing to do."""
        try:
            return getattr(self, f"_{self.stage.name.lower()}")(batch)  # type: ignore[no-any-return]
        except Fenced:
            self.forget()
            return True

    def _closed(self, _: int) -> bool:
        if self.broker.assigned != self.number:
            return False
        if self.delivered_from is None:
            self.delivered_from = self.broker.group
        if not self.rules.open_at_assignment and self.delivered_from >= self.broker.inputs:
            return False
        self.stage = Stage.CHECKED
        return True

    def _checked(self, _: int) -> bool:
        self.openings += 1
        self.name = "partition" if self.rules.fence else f"owner-{self.number}-{self.openings}"
        self.epoch = self.broker.init(self.name)
        self.stage = Stage.FENCED
        return True

    def _fenced(self, _: int) -> bool:
        log = self.broker.log
        self.decisions = {offset: value for change in log for offset, value in change.decisions.items()}
        self.next = log[-1].next if log and self.rules.log_is_truth else 0
        if not self.rules.log_is_truth:
            self.next = self.broker.group
        self.emitted = self.written = log[-1].emitted if log else 0
        self.stage = Stage.FOLDED
        return True

    def _folded(self, _: int) -> bool:
        self._emit()
        if self.rules.opening_commit:
            self._build({})
        else:
            self.stage = Stage.IDLE
        return True

    def _idle(self, batch: int) -> bool:
        todo = range(self.next, min(self.next + batch, self.broker.inputs))
        if not todo and self.emitted == self.written:
            return False
        decisions = {}
        for offset in todo:
            self.attempts += 1
            made = self.attempts * 2 + self.number
            stored = self.broker.store.setdefault(offset, made)
            decisions[offset] = stored if self.rules.publish_stored else made
        self._build(decisions)
        return True

    def _build(self, decisions: dict[int, int]) -> None:
        self.change = Change(decisions, max([self.next, *(offset + 1 for offset in decisions)]), self.emitted)
        if not self.rules.log_before_emitting:
            self.broker.work.extend(decisions.items())
        self.stage = Stage.BUILT

    def _built(self, _: int) -> bool:
        self.broker.send(self.name, self.epoch, self.change)
        self.stage = Stage.SENT
        return True

    def _sent(self, _: int) -> bool:
        self.broker.commit(self.name, self.epoch)
        self.stage = Stage.COMMITTED
        return True

    def lose(self, *, request: bool) -> None:
        """The commit's request or its answer is lost: the owner only sees that no answer came."""
        if self.stage is not Stage.SENT:
            return
        if not request:
            try:
                self.broker.commit(self.name, self.epoch)
            except Fenced:
                self.forget()
                return
        if self.rules.void_on_doubt:
            self.forget()
        else:
            self.stage = Stage.BUILT

    def _committed(self, _: int) -> bool:
        self.decisions |= self.change.decisions
        self.next = self.change.next
        self.written = self.change.emitted
        self._emit()
        self.stage = Stage.IDLE
        return True

    def _emit(self) -> None:
        """Work for everything that is decided and perhaps not emitted. Twice is allowed, never is not."""
        self.broker.work.extend((at, self.decisions[at]) for at in sorted(self.decisions) if at >= self.emitted)
        self.emitted = max(self.next, self.emitted)


def check_safe(broker: Broker) -> None:
    """What holds at every moment."""
    outputs = Counter(offset for offset, _ in broker.outputs)
    assert all(count == 1 for count in outputs.values()), "an input was put out twice"
    watermarks = [change.next for change in broker.log]
    assert watermarks == sorted(watermarks), "the watermark fell"
    decided = {offset: value for change in broker.log for offset, value in change.decisions.items()}
    assert all(decided.get(offset) == value for offset, value in broker.work), "work that was not decided so"
    assert all(broker.store[offset] == value for offset, value in broker.outputs), "not what is stored"


def check_done(broker: Broker) -> None:
    """What holds when the faults have ended and nobody has anything to do."""
    everything = set(range(broker.inputs))
    assert {offset for offset, _ in broker.outputs} == everything, "an input was lost"
    assert {offset for offset, _ in broker.work} == everything, "work was never emitted"
    assert broker.group == broker.inputs, "lag is not 0 when the work is done"

"""The lease protocol as a small pure model: what a broker, a store and two owners do, one step at a time.

A frozen owner is one that takes no step, a killed one has forgotten everything, a zombie is one that goes on without
the partition. Every fault can come between any two steps. `Rules` are what the protocol consists of; each can be left
out, to show that it is needed.

While a batch is logged and acted on, the next may be decided in memory, by what no log says yet. Inputs come in pairs
of one name, so that what a batch decides depends on the one before it: the second of a pair is a repeat.
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
    drop_what_was_ahead: bool = True  # where a batch came to nothing; else the next is logged without it
    decide_by_memory: bool = True  # else by what is logged, also ahead of it
    own_mark: bool = True  # a batch that is acted on says so of itself; else of all that was decided by then
    in_turn: bool = True  # what counts a batch is said after it; else before


AGAIN_MAX = 2  # batches whose work is produced again: the one that was written, and the one decided meanwhile


def name_of(offset: int) -> int:
    return offset // 2


class Fenced(Exception):
    """The broker knows a newer epoch of this id."""


@dataclass(frozen=True)
class Change:
    """One transaction: decisions by input offset, their outputs, the cursor, and the group's offset. The cursor is read
    when it is built, which may be a batch before it is logged."""

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
    again_max: int = 0  # batches whose work an opening produced again

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
        self.change = Change({}, 0, 0)  # the newest that was built
        self.forget()

    def forget(self) -> None:
        """What death does, and doubt."""
        self.stage = Stage.CLOSED
        self.delivered_from: int | None = None
        self.ahead: dict[int, int] | Change | None = None  # decided, or built, while another is written

    def step(self, batch: int = 2) -> bool:
        """Do one thing. False where there is nothing to do."""
        try:
            return getattr(self, f"_{self.stage.name.lower()}")(batch)  # type: ignore[no-any-return]
        except Fenced:
            self.forget()
            return True

    def look_ahead(self, *, build: bool, batch: int = 2) -> None:
        """While a batch is written: decide the next, and build it or leave that for later."""
        if self.stage not in {Stage.BUILT, Stage.SENT, Stage.COMMITTED}:
            return
        if self.ahead is None:
            self.ahead = self._decide(batch) or None
        if build and isinstance(self.ahead, dict):
            self.ahead = self._built_of(self.ahead)

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
        decided = {offset: value for change in log for offset, value in change.decisions.items()}
        self.names = {name_of(offset) for offset in decided}
        self.logged = set(self.names)
        self.next = log[-1].next if log and self.rules.log_is_truth else 0
        if not self.rules.log_is_truth:
            self.next = self.broker.group
        self.emitted = self.written = log[-1].emitted if log else 0
        self.stage = Stage.FOLDED
        return True

    def _folded(self, _: int) -> bool:
        again = [change for change in self.broker.log if any(at >= self.emitted for at in change.decisions)]
        self.broker.again_max = max(self.broker.again_max, len(again))
        for change in again:
            self._emit({at: value for at, value in change.decisions.items() if at >= self.emitted})
        self.emitted = max(self.next, self.emitted)
        if self.rules.opening_commit:
            self._build({})
        else:
            self.stage = Stage.IDLE
        return True

    def _idle(self, batch: int) -> bool:
        before = self.next
        decisions = self._decide(batch)
        if self.next == before and self.emitted == self.written:
            return False
        self._build(decisions)
        if not self.rules.in_turn:
            self.ahead, self.change = self.change, Change({}, self.next, self.emitted)
        return True

    def _decide(self, batch: int) -> dict[int, int]:
        """In memory: nobody else knows of it yet."""
        decisions = {}
        for offset in range(self.next, min(self.next + batch, self.broker.inputs)):
            self.next = offset + 1
            if name_of(offset) in (self.names if self.rules.decide_by_memory else self.logged):
                continue
            self.names.add(name_of(offset))
            self.attempts += 1
            made = self.attempts * 2 + self.number
            stored = self.broker.store.setdefault(offset, made)
            decisions[offset] = stored if self.rules.publish_stored else made
        return decisions

    def _built_of(self, decisions: dict[int, int]) -> Change:
        if not self.rules.log_before_emitting:
            self._emit(decisions)
        return Change(decisions, self.next, self.emitted)

    def _build(self, decisions: dict[int, int]) -> None:
        self.change = self._built_of(decisions)
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
        if self.ahead is not None and not self.rules.drop_what_was_ahead:
            self._go_on()
        elif self.rules.void_on_doubt:
            self.forget()
        else:
            self.stage = Stage.BUILT

    def _committed(self, _: int) -> bool:
        """Twice is allowed, never is not."""
        self.logged |= {name_of(offset) for offset in self.change.decisions}
        self.written = self.change.emitted
        self._emit(self.change.decisions)
        self.emitted = max(self.emitted, self.change.next if self.rules.own_mark else self.next)
        self._go_on()
        return True

    def _go_on(self) -> None:
        """With the batch that was decided meanwhile, if one was."""
        ahead, self.ahead = self.ahead, None
        if ahead is None:
            self.stage = Stage.IDLE
        elif isinstance(ahead, Change):
            self.change, self.stage = ahead, Stage.BUILT
        else:
            self._build(ahead)

    def _emit(self, decisions: dict[int, int]) -> None:
        self.broker.work.extend(sorted(decisions.items()))


def check_safe(broker: Broker) -> None:
    """What holds at every moment."""
    outputs = Counter(name_of(offset) for offset, _ in broker.outputs)
    assert all(count == 1 for count in outputs.values()), "an input was put out twice"
    watermarks = [change.next for change in broker.log]
    assert watermarks == sorted(watermarks), "the watermark fell"
    decided = {offset: value for change in broker.log for offset, value in change.decisions.items()}
    assert all(decided.get(offset) == value for offset, value in broker.work), "work that was not decided so"
    assert all(broker.store[offset] == value for offset, value in broker.outputs), "not what is stored"
    assert broker.again_max <= AGAIN_MAX, "more than two batches were produced again"


def check_done(broker: Broker) -> None:
    """What holds when the faults have ended and nobody has anything to do."""
    everything = {name_of(offset) for offset in range(broker.inputs)}
    assert {name_of(offset) for offset, _ in broker.outputs} == everything, "an input was lost"
    assert {name_of(offset) for offset, _ in broker.work} == everything, "work was never emitted"
    assert broker.group == broker.inputs, "lag is not 0 when the work is done"

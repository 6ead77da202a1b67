"""Carries a plan out: feeds requests, strikes processes, starts them again, and waits until all has come to rest."""

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fault.children import Child, stop_all
from tests.fault.history import Sent
from tests.fault.plan import Act, Blow, Fault, Kind, Plan
from tests.fault.reader import holders_of, lag_of, reset_to_earliest
from tests.fault.sender import Sender
from tests.fault.waiting import Deadline, TooLate
from tests.fault.world import SESSION_SECONDS, World

_READY_SECONDS = 120.0
_STOP_SECONDS = 40.0
_QUIET_SECONDS = 2.0
_LOST_SECONDS = 45.0  # without lag and without an end: beyond the longest wait for another consumer's mark
_RESTART_SECONDS = 0.5
_DEATHS_MAX = 5


@dataclass(slots=True)
class Deeds:
    """What was done to the processes, and how they took it."""

    done: Counter[str] = field(default_factory=Counter)
    lag_after_reset: dict[str, int] = field(default_factory=dict)
    slow_stops: list[str] = field(default_factory=list)
    bad_exits: list[str] = field(default_factory=list)
    fed_seconds: float = 0.0
    drained_seconds: float = 0.0


class Storm:
    """Owns the children of a run from start to end."""

    def __init__(
        self,
        world: World,
        children: Mapping[tuple[Kind, int], Child],
        deadline: Deadline,
        say: Callable[[str], None],
    ) -> None:
        self.world = world
        self.children = children
        self.deeds = Deeds()
        self._deadline = deadline
        self._say = say
        self._sender = Sender(world.bootstrap, world.catalogue.requests, world.catalogue.requests_partitions)
        self._asleep: list[tuple[float, Child, bool]] = []
        self._stopped = False

    def start(self) -> None:
        """Start every process and wait until all are ready."""
        for child in self.children.values():
            child.start()
        self._deadline.wait_for(
            lambda: all(child.ready() for child in self.children.values()),
            f"{[child.name for child in self.children.values() if not child.ready()]} to be ready",
            seconds=_READY_SECONDS,
            meanwhile=self._tend,
            poll_seconds=0.25,
        )
        self._say(f"all {len(self.children)} processes are ready after {self._deadline.elapsed:.0f} s")

    def carry_out(self, plan: Plan) -> None:
        """Play every act, and wake who sleeps."""
        started = time.monotonic()
        for number, act in enumerate(plan.acts):
            self._play(number, act)
        self._deadline.wait_for(lambda: not self._asleep, "the frozen to wake", meanwhile=self._tend)
        self.deeds.fed_seconds = time.monotonic() - started

    def sent(self) -> Sequence[Sent]:
        """Every record that was acknowledged, also where the plan was not carried out to its end."""
        return self._sender.flush(30.0)

    def settle(self, ended: Callable[[], int], wanted: int) -> dict[str, int]:
        """Wait until `wanted` requests have ended and both groups lag 0, and stay there. Returns the lags; raises
        nothing where the time runs out or all hope is gone, for the checker then says what is missing."""
        started = time.monotonic()
        before, since = -1, started
        while self._deadline.left > 0:
            self._tend()
            now, count, lag = time.monotonic(), ended(), sum(self.lags().values())
            if lag or count != before:
                before, since = count, now
            if now - since > (_QUIET_SECONDS if count >= wanted else _LOST_SECONDS):
                break
            time.sleep(0.25)
        self.deeds.drained_seconds = time.monotonic() - started
        return self.lags()

    def lags(self) -> dict[str, int]:
        return {group: lag_of(self.world.bootstrap, group, topics) for group, topics in self.world.groups.items()}

    def stop(self) -> None:
        """Ask every process to stop, and note who did not do it well."""
        self._stopped = True
        statuses = stop_all(list(self.children.values()), self._deadline, seconds=_STOP_SECONDS)
        for name, status in statuses.items():
            if status is None:
                self.deeds.slow_stops.append(name)
            elif status != 0 and self._could_hear(name, status):
                self.deeds.bad_exits.append(f"{name} ended with {status} after SIGTERM")

    def _could_hear(self, name: str, status: int) -> bool:
        """Whether a status is the process's own doing: before its first readiness it may not hear a signal yet, and
        dead before it was asked it has nothing to say."""
        child = next(child for child in self.children.values() if child.name == name)
        return child.was_ready and status != -signal.SIGKILL

    def destroy(self) -> None:
        """Kill whatever still runs. For the end of a run that went wrong."""
        self._stopped = True
        for child in self.children.values():
            child.destroy()

    def _play(self, number: int, act: Act) -> None:
        started = time.monotonic()
        waiting = list(act.sendings)
        fault = act.fault

        def send_due() -> None:
            while waiting and time.monotonic() - started >= waiting[0].after_seconds:
                self._sender.send(waiting.pop(0))
            self._tend()

        if fault is not None:
            self._deadline.pause(act.fault_after_seconds, send_due)
            if fault.blow is not Blow.RESET:
                victim = self.children[fault.kind, fault.victim]
                what = f"{victim.name} to hold partitions before {fault}"
                self._deadline.wait_for(
                    lambda: self._strikeable(victim), what, seconds=_READY_SECONDS, meanwhile=send_due
                )
            for sending in [*waiting, *act.burst]:
                self._sender.send(sending)
            waiting.clear()
            self._sender.push()
            if act.aborted:
                self._sender.abort(self.world.holed_topics)
                self.deeds.done["aborted transactions"] += 1
            time.sleep(act.blow_after_burst_seconds)
            self._say(f"{self._deadline.elapsed:5.0f} s  {fault}")
            self._strike(fault)
        self._deadline.wait_for(lambda: not waiting, f"act {number} to end", meanwhile=send_due)

    def _strikeable(self, victim: Child) -> bool:
        """A frozen or idle victim would be a blow in the air."""
        if any(child is victim for _, child, _ in self._asleep) or not victim.ready():
            return False
        return any(victim.client_id in holders_of(self.world.bootstrap, group) for group in self.world.groups)

    def _strike(self, fault: Fault) -> None:
        self.deeds.done[f"{fault.blow} {fault.kind}" if fault.blow is not Blow.RESET else "reset"] += 1
        match fault.blow:
            case Blow.KILL:
                self.children[fault.kind, fault.victim].signal(signal.SIGKILL)
            case Blow.FREEZE:
                victim = self.children[fault.kind, fault.victim]
                victim.signal(signal.SIGSTOP, whole_group=fault.whole_group)
                self._asleep.append((time.monotonic() + fault.asleep_seconds, victim, fault.whole_group))
            case Blow.RESET:
                self._reset(sigkill=fault.sigkill)

    def _reset(self, *, sigkill: bool) -> None:
        self._deadline.wait_for(lambda: not self._asleep, "the frozen to wake", meanwhile=self._tend)
        if sigkill:
            for child in self.children.values():
                child.destroy()
        else:
            self.stop()
        patience = min(20 * SESSION_SECONDS, self._deadline.left)
        self.deeds.lag_after_reset = reset_to_earliest(self.world.bootstrap, self.world.groups, seconds=patience)
        self._say(f"{self._deadline.elapsed:5.0f} s  both groups are at the earliest: lag {self.deeds.lag_after_reset}")
        self._stopped = False
        for child in self.children.values():
            child.start()

    def _tend(self) -> None:
        """Wake who has slept long enough, and start again who is dead."""
        now = time.monotonic()
        for sleeper in [each for each in self._asleep if each[0] <= now]:
            self._asleep.remove(sleeper)
            _, child, whole_group = sleeper
            child.signal(signal.SIGCONT, whole_group=whole_group)
        if self._stopped:
            return
        for child in self.children.values():
            status = child.exit_status
            # One that dies at once is not started again in a frenzy.
            if status is None or now - child.started_at < _RESTART_SECONDS:
                continue
            if not child.expected:
                child.deaths_of_its_own.append(status)
                self._say(f"{self._deadline.elapsed:5.0f} s  {child.name} ended by itself with {status}")
                if len(child.deaths_of_its_own) >= _DEATHS_MAX:
                    raise TooLate(f"{child.name} dies again and again: {child.deaths_of_its_own}; see {child.log}")
            child.start()


def describe(plan: Plan) -> str:
    """The plan as JSON lines, for the run's folder: the same seed gives the same text."""
    lines = []
    for act in plan.acts:
        for sending in act.records:
            name, raw = sending.wish.meaning.name, sending.wish.raw
            what = {"of": sending.of, "astray": sending.astray, "spaced": sending.wish.spaced}
            lines.append(json.dumps({"record": sending.number, "name": name, "raw": repr(raw), **what}))
        if act.fault is not None:
            lines.append(json.dumps({"fault": str(act.fault), "within": act.blow_after_burst_seconds}))
    return "\n".join(lines) + "\n"

"""The lease protocol keeps its promises under any order of steps and faults, and needs every one of its rules."""

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.property.lease_model import AGAIN_MAX, Broker, Owner, Rules, Stage, check_done, check_safe

pytestmark = pytest.mark.usefixtures("same_examples")

OWNERS = st.sampled_from([0, 1])
AHEAD = st.integers(0, 2)  # while a batch is written: nothing, the next is decided, it is also built
STEPS_MAX = 500  # of two owners that only have to finish; more is a livelock


class Protocol(RuleBasedStateMachine):
    rules_kept: ClassVar[Rules] = Rules()

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        self.owners = [Owner(number, self.broker, self.rules_kept) for number in (0, 1)]

    @rule(count=st.integers(1, 3))
    def arrive(self, count: int) -> None:
        self.broker.inputs += count

    @rule(number=OWNERS)
    def assign(self, number: int) -> None:
        """A rebalance, for whatever reason. The former owner is not told: it may be frozen."""
        if self.broker.assigned != number:
            self.broker.assigned = number
            self.owners[number].delivered_from = None

    @rule(number=OWNERS, count=st.integers(1, 8), ahead=AHEAD)
    def step(self, number: int, count: int, ahead: int) -> None:
        for _ in range(count):
            self._step(self.owners[number], ahead)

    def _step(self, owner: Owner, ahead: int) -> bool:
        worked = owner.step()
        check_safe(self.broker)
        if ahead:
            owner.look_ahead(build=ahead > 1)
        return worked

    @rule(number=OWNERS, stage=st.sampled_from(Stage), ahead=AHEAD)
    def run_up_to(self, number: int, stage: Stage, ahead: int) -> None:
        """Freeze an owner just there."""
        owner = self.owners[number]
        for _ in range(2 * len(Stage)):
            if not self._step(owner, ahead) or owner.stage is stage:
                break

    @rule(number=OWNERS)
    def kill(self, number: int) -> None:
        self.owners[number].forget()

    @rule(number=OWNERS, request=st.booleans(), ahead=AHEAD)
    def lose(self, number: int, request: bool, ahead: int) -> None:
        """Of the next transaction, wherever the owner is now."""
        if self.owners[number].stage is not Stage.SENT:
            self.run_up_to(number, Stage.SENT, ahead)
        self.owners[number].lose(request=request)

    @rule()
    def expire(self) -> None:
        self.broker.expire()

    @rule(offset=st.integers(0, 20))
    def reset_group(self, offset: int) -> None:
        """An operator, or the expiry of offsets: behind or ahead. Both owners are down, or the group refuses it."""
        for owner in self.owners:
            owner.forget()
        self.broker.assigned = None
        self.broker.expire()
        self.broker.group = min(offset, self.broker.inputs)

    @rule(number=OWNERS)
    def settle(self, number: int) -> None:
        """The faults end: one owner has the partition, and everybody runs until there is nothing to do."""
        self.assign(number)
        for _ in range(STEPS_MAX):
            worked = [owner.step() for owner in self.owners]
            check_safe(self.broker)
            if not any(worked):
                break
        else:
            raise AssertionError("the owners never finish")
        check_done(self.broker)

    @invariant()
    def safe(self) -> None:
        check_safe(self.broker)

    def teardown(self) -> None:
        self.settle(0)


LOOK = settings(
    max_examples=400, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def test_the_protocol_keeps_its_promises() -> None:
    run_state_machine_as_test(Protocol, settings=LOOK)


def test_who_dies_at_the_worst_moment_has_the_work_of_two_batches_produced_again() -> None:
    """The second was built before the first was acted on, and is logged."""
    broker = Broker(inputs=8, assigned=0)
    owner = Owner(0, broker, Rules())
    while len(broker.log) < 3:  # the opening's, and two batches
        owner.step()
        owner.look_ahead(build=True)
    owner.forget()
    while owner.step():
        check_safe(broker)
    check_done(broker)
    assert broker.again_max == AGAIN_MAX
    assert len(broker.work) == len({*broker.work}) + 1, "the second was not yet produced when its owner died"


@pytest.mark.parametrize(
    ("without", "found"),
    [
        (Rules(fence=False), "an input was put out twice|the watermark fell"),
        (Rules(open_at_assignment=False), "work was never emitted|lag is not 0|an input was lost"),
        (Rules(opening_commit=False), "lag is not 0"),
        (Rules(log_is_truth=False), "an input was put out twice|the watermark fell|an input was lost"),
        (Rules(publish_stored=False), "not what is stored"),
        (Rules(log_before_emitting=False), "work that was not decided so"),
        (Rules(void_on_doubt=False), "an input was put out twice|the watermark fell"),
        (Rules(drop_what_was_ahead=False), "an input was lost|work was never emitted"),
        (Rules(decide_by_memory=False), "an input was put out twice"),
        (Rules(own_mark=False), "work was never emitted"),
        (Rules(in_turn=False), "an input was lost"),
    ],
    ids=[
        "fence", "open at assignment", "opening commit", "log is truth", "publish stored", "log first", "void",
        "drop", "memory", "own mark", "in turn",
    ],
)  # fmt: skip
def test_no_rule_can_be_left_out(without: Rules, found: str) -> None:
    """The model finds what each rule is for, so that its silence above means something."""

    class Mutant(Protocol):
        rules_kept = without

    quick = settings(LOOK, max_examples=3_000, phases=[Phase.generate], report_multiple_bugs=False, database=None)
    with pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(Mutant, settings=quick)

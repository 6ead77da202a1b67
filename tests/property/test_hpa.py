"""The HPA beside its rules written down again over the whole past, and its bounds."""

import math

from hypothesis import given
from hypothesis import strategies as st

from infra.scaling.hpa import Behaviour, Hpa, Policy, Rules

POLICIES = st.builds(
    Policy, st.sampled_from(["Pods", "Percent"]), st.integers(1, 150), st.sampled_from([15, 30, 60, 120])
)
RULES = st.builds(
    Rules,
    st.sampled_from([0, 15, 30, 60, 300]),
    st.lists(POLICIES, min_size=1, max_size=3).map(tuple),
    st.sampled_from(["Max", "Min", "Disabled"]),
    st.sampled_from([0.0, 0.1, 0.2]),
)
LOOKS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 500)), min_size=1, max_size=40)
BOUNDS = st.tuples(st.integers(0, 10), st.integers(10, 60))


class Plain:
    """Nothing is shared with what is tested, and nothing forgotten but what the controller forgets: of the changes in
    one direction that its policies look back to no more, a new one takes the place of the last."""

    def __init__(self, behaviour: Behaviour, low: int, high: int) -> None:
        self.up, self.down, self.low, self.high = behaviour.up, behaviour.down, max(1, low), high
        self.said: list[tuple[int, int]] = []
        self.moved: list[tuple[int, int]] = []

    def wish(self, now: int, value: int, target: int, have: int) -> int:
        if not self.said:
            self.said.append((now, have))
        wish = self._wish(now, value, target, have)
        if wish != have:
            rules = self.up if wish > have else self.down
            longest = max(policy.period_seconds for policy in rules.policies)
            for place in reversed(range(len(self.moved))):
                at, change = self.moved[place]
                if (change > 0) == (wish > have) and at < now - longest:
                    self.moved[place] = (now, wish - have)
                    break
            else:
                self.moved.append((now, wish - have))
        return wish

    def _wish(self, now: int, value: int, target: int, have: int) -> int:
        if not self.low <= have <= self.high:
            return self.high if have > self.high else self.low
        ratio = value / (target * have)
        said = have if 1 - self.down.tolerance <= ratio <= 1 + self.up.tolerance else -(-value // target)
        lowest = min([said, *(each for at, each in self.said if at > now - self.up.window_seconds)])
        highest = max([said, *(each for at, each in self.said if at > now - self.down.window_seconds)])
        self.said.append((now, said))
        wish = lowest if have < lowest else have
        wish = highest if wish > highest else wish
        if wish > have:
            return min(wish, max(have, min(self.high, self._limit(now, have, self.up, 1))))
        return max(wish, min(have, max(self.low, self._limit(now, have, self.down, -1)))) if wish < have else wish

    def _limit(self, now: int, have: int, rules: Rules, sign: int) -> int:
        if rules.select == "Disabled":
            return have
        limits = []
        for policy in rules.policies:
            began = have - sum(change for at, change in self.moved if at > now - policy.period_seconds)
            share = began * (1 + sign * policy.value / 100)
            percent = math.ceil(share) if sign > 0 else math.trunc(share)
            limits.append(began + sign * policy.value if policy.kind == "Pods" else percent)
        return max(limits) if (rules.select == "Max") == (sign > 0) else min(limits)


@given(RULES, RULES, BOUNDS, st.integers(1, 70), st.integers(1, 40), LOOKS)
def test_as_the_rules_say(
    up: Rules, down: Rules, bounds: tuple[int, int], have: int, target: int, looks: list[tuple[int, int]]
) -> None:
    behaviour = Behaviour(up, down)
    ours, plain, now = Hpa(behaviour, *bounds), Plain(behaviour, *bounds), 0
    for seconds, value in looks:
        now += seconds
        wish = ours.wish(now, value, target, have)
        assert wish == plain.wish(now, value, target, have)
        assert max(1, bounds[0]) <= wish <= bounds[1]
        have = wish


@given(BOUNDS, st.integers(1, 40), st.integers(0, 3000))
def test_a_steady_value_comes_to_rest_within_a_tenth_of_its_target(
    bounds: tuple[int, int], target: int, value: int
) -> None:
    ours, have, before = Hpa(Behaviour(), *bounds), 1, 0
    for now in range(0, 3600, 15):
        before, have = have, ours.wish(now, value, target, have)
    assert have == before
    needed = min(bounds[1], max(1, bounds[0], -(-value // target)))
    assert have == needed or abs(value / (target * have) - 1) <= 0.1 + 1e-9

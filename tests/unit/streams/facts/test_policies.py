"""Policies with a clock beside them."""

import logging
from typing import Any

import pytest
from prometheus_client import generate_latest

from admission.policy import PolicyAnswer, PolicyText
from streams.facts.policies import PoliciesFact
from streams.metrics import AdmissionMetrics
from tests.unit.admission.scene import make_world

TEXT = PolicyText("alice", "sketch@1", "a kiln")


class Says:
    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.problem: str | None = None

    def judge(self, text: PolicyText) -> PolicyAnswer | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: PolicyAnswer | None = self.answer
        return answer


class Unsure:
    @property
    def problem(self) -> str | None:
        raise OSError("its socket is gone")

    def judge(self, text: PolicyText) -> None: ...


def watched(slow_seconds: float = 60.0, **policies: Any) -> tuple[PoliciesFact, AdmissionMetrics]:
    metrics = AdmissionMetrics()
    return PoliciesFact(policies, metrics, slow_seconds), metrics


def exposed(metrics: AdmissionMetrics) -> str:
    page: bytes = generate_latest(metrics.registry)
    return page.decode()


async def test_the_world_has_them_in_their_order() -> None:
    fact, _ = watched(two=Says(), one=Says())
    async with fact:
        assert [*fact.into(make_world()).policies] == ["two", "one"]
        assert (fact.failure, fact.age_seconds) == (None, 0.0)


def test_without_any_the_world_stays_as_it_is() -> None:
    world = make_world()
    assert watched()[0].into(world) is world


def test_what_each_answers_is_counted() -> None:
    fact, metrics = watched(kind=Says(), strict=Says(PolicyAnswer("gore")))
    for policy in fact.into(make_world()).policies.values():
        policy.judge(TEXT)
    text = exposed(metrics)
    assert 'policy_answers_total{answer="passed",policy="kind"} 1.0' in text
    assert 'policy_answers_total{answer="refused",policy="strict"} 1.0' in text
    assert 'policy_seconds_count{policy="kind"} 1.0' in text


def test_a_failure_is_passed_on_counted_and_told_once_without_the_text(caplog: pytest.LogCaptureFixture) -> None:
    fact, metrics = watched(broken=Says(ValueError("cannot read 'a kiln'")))
    policy = fact.into(make_world()).policies["broken"]
    with caplog.at_level(logging.INFO, "streams"):
        for _ in range(3):
            with pytest.raises(ValueError, match="cannot read"):
                policy.judge(TEXT)
    (line,) = caplog.messages
    assert "'broken' failed on a text with ValueError at" in line
    assert "kiln'" not in line
    assert 'policy_answers_total{answer="failed",policy="broken"} 3.0' in exposed(metrics)


def test_a_slow_one_is_told(caplog: pytest.LogCaptureFixture) -> None:
    fact, _ = watched(slow_seconds=1e-12, slow=Says())
    with caplog.at_level(logging.INFO, "streams"):
        fact.into(make_world()).policies["slow"].judge(TEXT)
    assert "every request waits for it" in caplog.text


def test_one_that_cannot_judge_now_keeps_everything_from_being_decided() -> None:
    """A refusal would be final, and what is missing comes back."""
    late = Says()
    fact, _ = watched(kind=Says(), late=late)
    problems = [fact.problem]
    for late.problem in ("its model is not loaded yet", None):
        problems.append(fact.problem)
    assert problems == [None, "the content policy 'late' cannot judge: its model is not loaded yet", None]


def test_one_that_fails_to_say_whether_it_can_cannot() -> None:
    assert watched(unsure=Unsure())[0].problem == "the content policy 'unsure' cannot judge: OSError"

"""Policies with a clock beside them."""

import asyncio
import logging
import threading
from collections.abc import Callable
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
    return PoliciesFact(policies, metrics, slow_seconds, refresh_seconds=0.001), metrics


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


class Read(Says):
    """One that is read again, elsewhere than in the loop that decides. The last of its troubles stays."""

    def __init__(self, *troubles: Exception | None) -> None:
        super().__init__()
        self.troubles = list(troubles)
        self.threads: set[int] = set()

    def refresh(self) -> None:
        self.threads.add(threading.get_ident())
        trouble = self.troubles.pop(0) if len(self.troubles) > 1 else next(iter(self.troubles), None)
        if trouble is not None:
            raise trouble


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


async def test_one_that_can_be_read_again_is_and_not_in_the_loop() -> None:
    read = Read()
    fact, _ = watched(kind=Says(), read=read)
    async with fact:
        await until(lambda: bool(read.threads))
        assert (fact.note, fact.problem, fact.failure) == (None, None, None)
    assert threading.get_ident() not in read.threads


async def test_one_that_cannot_be_read_again_goes_on_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    broken = OSError(5, "Input/output error")
    read = Read(broken, broken, ValueError("line 2"), broken)
    fact, _ = watched(read=read)
    with caplog.at_level(logging.INFO, "streams"):
        async with fact:
            await until(lambda: len(caplog.messages) == 3)
            assert fact.note == "the content policy 'read' is as it was before: Input/output error"
            assert fact.problem is None, "it judges by what it had"
            age = fact.age_seconds
            await until(lambda: fact.age_seconds > age)
            read.troubles.clear()
            await until(lambda: fact.note is None)
    assert [line.rpartition(": ")[2] for line in caplog.messages] == [
        "Input/output error", "line 2", "Input/output error",
    ]  # fmt: skip

"""What becomes of what policies say of a text."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from admission.decide import decide
from admission.policy import Policy, PolicyAnswer, PolicyText
from admission.verdict import Verdict
from admission.wait import Wait
from schemas.catalogue import ConfigCatalogue
from tests.unit.admission.scene import (
    NOW_MS,
    Partition,
    accepted,
    arrival,
    config_file,
    fresh_state,
    make_world,
    rejected,
    request,
)


@dataclass
class Says:
    answer: Any = None
    asked: list[PolicyText] = field(default_factory=list)
    problem: str | None = None

    def judge(self, text: PolicyText) -> PolicyAnswer | None:
        self.asked.append(text)
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: PolicyAnswer | None = self.answer
        return answer


def decided(policies: dict[str, Policy], *, limits: dict[str, Any] | None = None, **changes: Any) -> Verdict:
    world = replace(make_world(**limits or {}), policies=policies)
    return decide(arrival(request(**changes)), fresh_state(), world, NOW_MS)


def test_what_no_policy_objects_to_enters() -> None:
    one, two = Says(), Says()
    assert accepted(decided({"one": one, "two": two})).prompt == "a kiln at dusk"
    assert [*map(len, (one.asked, two.asked))] == [1, 1]


def test_a_policy_is_told_who_asks_for_what() -> None:
    says = Says()
    accepted(decided({"one": says}, prompt="A  K\u200biln", negative_prompt="SMÖKE"))
    (text,) = says.asked
    assert (text.tenant, text.config) == ("alice", "sketch@1")
    assert (text.prompt, text.negative_prompt) == ("A  K\u200biln", "SMÖKE")
    assert (text.prompt_normalised, text.negative_prompt_normalised) == ("a kiln", "smoke")


def test_the_first_that_objects_decides_and_nothing_is_quoted() -> None:
    """Whoever tries a list out shall not read it from the answers."""
    late = Says(PolicyAnswer("never asked"))
    result = rejected(decided({"one": Says(), "two": Says(PolicyAnswer("gore")), "late": late}))
    assert (result.code, result.field) == ("policy_violation", "prompt")
    assert result.message == (
        "prompt is against the content policy 'two' (gore); change it and send it under a new request id"
    )
    assert not late.asked


def test_the_field_is_the_one_that_is_against_it() -> None:
    result = rejected(decided({"one": Says(PolicyAnswer("gore", "negative_prompt"))}, negative_prompt="x"))
    assert result.field == "negative_prompt"
    assert "negative_prompt is against" in result.message


@pytest.mark.parametrize("wrong", [ValueError("a kiln at dusk"), RecursionError(), "no answer", 1, True], ids=repr)
def test_a_policy_that_fails_on_a_text_refuses_it_or_not_as_it_is_set(wrong: Any) -> None:
    """It would fail on it again: to hold the text would stop its partition for ever."""
    result = rejected(decided({"broken": Says(wrong)}))
    assert result.code == "policy_violation"
    assert "could not be judged by the content policy 'broken' (unjudged)" in result.message
    assert "dusk" not in result.message
    after = Says()
    accepted(decided({"broken": Says(wrong), "after": after}, limits={"policy_on_failure": "pass"}))
    assert len(after.asked) == 1, "the others still judge"


def test_a_policy_may_not_pass_for_one_that_failed() -> None:
    rejected(decided({"one": Says(PolicyAnswer("unjudged"))}, limits={"policy_on_failure": "pass"}))


class Forbids(Says):
    """One config, whatever the text is."""

    def judge(self, text: PolicyText) -> PolicyAnswer | None:
        return PolicyAnswer("not with this model") if text.config == "cheap@1" else None


@pytest.mark.parametrize(("policy", "label"), [(Says(), "cheap@1"), (Forbids(), "dear@1")], ids=["passes", "forbids"])
def test_what_a_request_is_degraded_to_must_pass_too(policy: Policy, label: str) -> None:
    dear = config_file("dear", steps=16, price={"gpu_seconds": 8.0, "vram_bytes": 1 << 30})
    dear = dear.model_copy(update={"degrades_to": {1: "cheap@1"}})
    world = replace(
        make_world(),
        configs=ConfigCatalogue([dear, config_file("cheap")]),
        waits={"default": Wait({"standard": 1000.0})},
        policies={"one": policy},
    )
    sent = Partition(world).send(request(may_degrade=True, config={"name": "dear"}))
    assert accepted(sent).config.label == label


def test_a_refused_text_costs_nothing() -> None:
    says = Says(PolicyAnswer("gore"))
    partition = Partition(replace(make_world(), policies={"one": says}))
    for number in range(20):
        assert rejected(partition.send(request(f"r{number}"))).code == "policy_violation"
    says.answer = None
    for number in range(5):
        accepted(partition.send(request(f"kind-{number}")))
    assert rejected(partition.send(request("one more"))).code == "rate_limited", "the burst was whole until then"


def test_what_another_stage_refuses_is_not_judged() -> None:
    """A policy may be dear, and a flood of what is refused anyway must not reach it."""
    says = Says()
    for wrong in ({"prompt": "a" * 3000}, {"tenant": "nobody-11"}, {"config": {"name": "oil"}}, {"seed": -1}):
        rejected(decided({"one": says}, **wrong))
    assert not says.asked

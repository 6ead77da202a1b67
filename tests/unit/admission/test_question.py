"""What would become of a request, told without anything being changed."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.question import Answer, ask
from admission.verdict import Decided
from schemas.request import GenerationRequest
from tests.unit.admission.scene import NOW_MS, Partition, request, snapshot


def asked(partition: Partition, **wish: Any) -> Answer:
    return ask(GenerationRequest.model_validate(request(**wish)), partition.state, partition.world, NOW_MS)


@given(
    sent=st.integers(0, 7),
    images=st.integers(1, 6),
    config=st.sampled_from(["sketch", "slow", "huge", "stray", "none"]),
    priority=st.sampled_from(["interactive", "standard", "bulk"]),
)
def test_the_answer_is_what_becomes_of_the_request_when_it_is_sent(
    sent: int, images: int, config: str, priority: str
) -> None:
    partition = Partition()
    for number in range(sent):
        partition.send(request(f"r{number}"))
    wish = {"images": images, "config": {"name": config}, "priority": priority}
    before = snapshot(partition.state)
    answer = asked(partition, request_id="new", **wish)
    assert snapshot(partition.state) == before
    verdict = partition.send(request("new", **wish))
    assert isinstance(verdict, Decided)
    # Its bytes, and so its digest, may be spelt otherwise than those that are sent.
    same: dict[str, Any] = {"payload_digest": "", "work": None}
    assert replace(answer.decided.decision, **same) == replace(verdict.decision, **same)
    assert answer.decided.result == verdict.result

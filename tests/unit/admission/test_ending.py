"""A work item is written without its model, and is what the model would write."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.codec import decode_object
from schemas.names import seed_of
from schemas.request import GenerationRequest
from schemas.work import WorkItem
from tests.unit.admission.scene import HOME, NOW_MS, TENANT, Partition, decided, make_world, request

WORLD = make_world()
DEADLINE = "2027-01-15T12:00:00.250+02:00"
ALL: dict[str, Any] = {
    "negative_prompt": 'no "schema_version":9',
    "seed": 0,
    "images": 2,
    "priority": "bulk",
    "deadline": DEADLINE,
    "retry_of": "r0",
    "metadata": {"b": "null", "a": "é\U0001f525\\"},
}


def _work(wish: dict[str, Any]) -> tuple[str, Partition]:
    partition = Partition(WORLD)
    decision = decided(partition.send(wish))
    assert decision.work is not None, decision.message
    return decision.work, partition


@pytest.mark.parametrize("changes", [{}, ALL], ids=["the least", "all there is"])
def test_what_is_written_is_the_item(changes: dict[str, Any]) -> None:
    text, partition = _work(request(**changes))
    asked = GenerationRequest.model_validate(request(**changes))
    (job_id,) = partition.state.outstanding
    config = WORLD.configs.labelled("sketch@1")
    assert config is not None
    day = timedelta(seconds=WORLD.limits.default_deadline_seconds)
    accepted_at = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    item = WorkItem(
        job_id=job_id,
        tenant=TENANT,
        request_id="r1",
        retry_of=asked.retry_of,
        prompt=asked.prompt,
        negative_prompt=asked.negative_prompt,
        config=config,
        config_hash=config.config_hash,
        seed=seed_of(job_id) if asked.seed is None else asked.seed,
        images=asked.images,
        lane=asked.priority,
        deadline=asked.deadline or accepted_at + day,
        results_partition=HOME,
        price_gpu_seconds=2.0 * asked.images,
        accepted_at=accepted_at,
        appended_ms=NOW_MS,
        metadata=asked.metadata,
    )
    assert WorkItem.model_validate(decode_object(text.encode())) == item


def test_no_field_of_the_item_is_forgotten() -> None:
    text, _ = _work(request(**ALL))
    assert decode_object(text.encode()).keys() | {"degraded_from"} == WorkItem.model_fields.keys()

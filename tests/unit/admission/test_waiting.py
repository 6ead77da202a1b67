"""GPU-seconds that wait, by pool and lane, as jobs come and go."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admission.waiting import Waiting
from schemas.tenancy import Outstanding
from tests.unit.admission.scene import Partition, request

JOB: dict[str, Any] = {
    "tenant": "alice", "request_id": "r1", "deadline_ms": 1, "payload_digest": "d", "number": 1, "offset": 0,
    "appended_ms": 0,
}  # fmt: skip


def job(pool: str, lane: str, seconds: float) -> Outstanding:
    return Outstanding(**{**JOB, "pool": pool, "lane": lane, "price_gpu_seconds": seconds})


jobs = st.lists(
    st.builds(job, st.sampled_from(["a", "b"]), st.sampled_from(["standard", "bulk"]), st.floats(0.001, 1e5))
)


@given(there=jobs, gone=jobs)
def test_what_came_and_went_leaves_nothing_behind(there: list[Outstanding], gone: list[Outstanding]) -> None:
    only, both = Waiting(), Waiting()
    for each in there:
        only.add(each)
    for each in [*gone, *there]:
        both.add(each)
    for each in reversed(gone):
        both.remove(each)
    assert both.by_pool() == only.by_pool()
    for pool, lanes in both.by_pool().items():
        for lane, seconds in lanes.items():
            assert seconds == both.seconds(pool, lane) > 0


def test_nothing_waits_where_nothing_was_added() -> None:
    waiting = Waiting()
    assert waiting.seconds("a", "bulk") == 0
    assert waiting.by_pool() == {}


def test_a_job_waits_from_its_decision_to_its_result_also_past_a_takeover() -> None:
    partition = Partition()
    for number in (1, 2):
        partition.send(request(f"r{number}", images=number, priority="bulk"))
    assert partition.state.waiting.by_pool() == {"default": {"bulk": 6.0}}
    partition.finish(partition.produced[0].job_id)
    partition.log()
    assert partition.state.waiting.by_pool() == {"default": {"bulk": 4.0}}
    after, _ = partition.take_over()
    assert after.waiting.by_pool() == {"default": {"bulk": 4.0}}
    after.check_integrity()


def test_a_job_that_is_given_up_waits_no_more() -> None:
    partition = Partition()
    partition.send(request(images=3))
    assert partition.state.waiting.seconds("default", "standard") == 6.0
    far = partition.state.clock_ms + 365 * 86_400_000
    after, _ = partition.take_over(far)
    assert after.waiting.by_pool() == {}


def test_a_record_from_before_pools_were_kept_is_read() -> None:
    old = Outstanding(**{**JOB, "lane": "bulk", "price_gpu_seconds": 1.0})
    waiting = Waiting()
    waiting.add(old)
    assert waiting.seconds("default", "bulk") == 0

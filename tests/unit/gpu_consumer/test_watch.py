"""What the watch tells of the jobs that were taken."""

from datetime import timedelta

from gpu_consumer.watch import oldest
from tests.unit.gpu_consumer.work import EPOCH, FakeIndex, job_of, work_item


def test_the_oldest_is_told_by_lane_and_by_whether_it_has_begun() -> None:
    index = FakeIndex()
    items = [
        work_item(name, accepted_at=EPOCH - timedelta(seconds=age)) for name, age in (("a", 9), ("b", 4), ("c", 70))
    ]
    older, newer, begun = (job_of(item, index) for item in items)
    begun.started = True
    found = oldest([newer, older, begun], EPOCH)
    lane = older.lane
    assert found[lane, "waiting"] == 9
    assert found[lane, "begun"] == 70
    others = {seconds for (each, _), seconds in found.items() if each != lane}
    assert others == {0.0}, "a lane without jobs is told, too, or its last figure would stand for ever"


def test_a_clock_that_runs_behind_makes_nobody_younger_than_now() -> None:
    job = job_of(work_item("a", accepted_at=EPOCH + timedelta(seconds=3)), FakeIndex())
    assert set(oldest([job], EPOCH).values()) == {0.0}

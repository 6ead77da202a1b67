"""Liveness is progress."""

from streams.progress import ProgressWatch


def test_lag_without_progress_is_not_alive() -> None:  # cases AIO-04, FST-07
    watch: ProgressWatch[int] = ProgressWatch(60)
    watch.look(3, 17, lag=2, waiting_for=None, now=0)
    watch.look(3, 17, lag=2, waiting_for=None, now=59)
    assert watch.stalled(60) is None
    watch.look(4, 5, lag=1, waiting_for=None, now=50)
    assert watch.stalled_seconds(60) == 60, "of the one that has stood the longest"
    assert "requests[3]" in (watch.stalled(61) or "")


def test_progress_no_lag_and_a_named_wait_are_alive() -> None:  # case FST-08
    watch: ProgressWatch[int] = ProgressWatch(60)
    for partition, (offset, lag, waiting_for) in enumerate(
        [(18, 2, None), (17, 0, None), (17, 2, "the topic is missing")]
    ):
        watch.look(partition, 17, lag=2, waiting_for=None, now=0)
        watch.look(partition, offset, lag=lag, waiting_for=waiting_for, now=50)
    assert watch.stalled(100) is None
    assert "requests[0]" in (watch.stalled(111) or ""), "it moved once and then stood, with lag"


def test_nobody_is_stalled_because_nobody_looks() -> None:
    """A broker that does not answer, or a long refresh: what had no lag when last seen is not known to have any."""
    watch: ProgressWatch[int] = ProgressWatch(60)
    watch.look(0, 17, lag=0, waiting_for=None, now=0)
    watch.look(1, 17, lag=2, waiting_for="its lease is not open yet", now=0)
    assert watch.stalled(1000) is None
    assert watch.stalled_seconds(1000) == 0


def test_a_partition_that_left_is_another_processs_affair() -> None:
    watch: ProgressWatch[int] = ProgressWatch(60)
    watch.look(0, 17, lag=2, waiting_for=None, now=0)
    watch.keep({1})
    assert watch.stalled(1000) is None

"""How old a view says it is."""

from aiokafka import TopicPartition

from streams.kafka.view import Freshness

A, B = TopicPartition("control", 0), TopicPartition("control", 1)


def test_before_the_first_answer_the_age_counts_from_the_start() -> None:
    fresh = Freshness(100)
    assert fresh.age_seconds(103) == 3
    fresh.reset(105, [A, B])
    fresh.hear(A, None, 106)
    fresh.hear(A, 1, 107)
    assert fresh.age_seconds(108) == 8
    assert not fresh.complete
    fresh.hear(B, 1, 109)
    assert fresh.age_seconds(110) == 3


def test_a_reader_is_complete_when_it_has_heard_of_everything() -> None:
    fresh = Freshness(0)
    fresh.reset(0, [A, B])
    fresh.hear(A, 1, 1)
    fresh.hear(B, 1, 1)
    assert fresh.complete


def test_only_a_new_answer_counts() -> None:
    """Case AIO-23: what the client retries in its log alone is seen here."""
    fresh = Freshness(0)
    fresh.reset(0, [A])
    fresh.hear(A, 1_000, 1)
    for now in range(2, 10):
        fresh.hear(A, 1_000, now)
    assert fresh.age_seconds(10) == 9
    fresh.hear(A, 900, 10)  # the wall clock was set back
    assert fresh.age_seconds(10) == 0


def test_the_oldest_partition_decides() -> None:
    fresh = Freshness(0)
    fresh.reset(0, [A, B])
    fresh.hear(A, 1, 1)
    fresh.hear(B, 1, 1)
    fresh.hear(A, 2, 9)
    assert fresh.age_seconds(10) == 9


def test_a_new_reader_has_all_its_time_and_the_age_goes_on() -> None:
    fresh = Freshness(0)
    fresh.reset(0, [A])
    fresh.hear(A, 1, 1)
    fresh.reset(50, [A])
    assert fresh.silence_seconds(52) == 2
    assert fresh.age_seconds(52) == 51


def test_a_new_partition_does_not_make_the_view_old() -> None:
    fresh = Freshness(0)
    fresh.reset(0, [A])
    fresh.hear(A, 1, 1_000)
    fresh.reset(1_000, [A, B])
    assert fresh.age_seconds(1_001) == 1

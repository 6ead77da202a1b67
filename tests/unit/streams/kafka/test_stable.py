"""A last stable offset that stands."""

from aiokafka import TopicPartition

from streams.kafka.stable import StableWatch, Unstable

A, B = TopicPartition("results", 0), TopicPartition("results", 1)


def worst(watch: StableWatch, now: float) -> Unstable:
    ((_, found),) = watch.worst(["results"], now)
    return found


def test_an_open_transaction_is_told_with_its_age() -> None:
    watch = StableWatch()
    watch.look({A: 10, B: 5}, {A: 10, B: 5}, now=0)
    assert worst(watch, 1) == Unstable(0, 0.0)
    watch.look({A: 10, B: 5}, {A: 13, B: 5}, now=5)
    assert worst(watch, 5) == Unstable(3, 0.0), "since when, nobody knows yet"
    watch.look({A: 10, B: 5}, {A: 17, B: 6}, now=65)
    assert worst(watch, 65) == Unstable(7, 60.0), "of the worst partition"
    watch.look({A: 18, B: 6}, {A: 18, B: 6}, now=70)
    assert worst(watch, 70) == Unstable(0, 0.0)


def test_transactions_that_come_and_go_are_no_stand() -> None:
    """Whenever one looks, another one is open."""
    watch = StableWatch()
    for now in range(100):
        watch.look({A: 10 * now}, {A: 10 * now + 4}, now=now)
    assert worst(watch, 99) == Unstable(4, 0.0)


def test_quiet_between_two_transactions_ends_the_first_one() -> None:
    watch = StableWatch()
    watch.look({A: 10}, {A: 12}, now=0)
    watch.look({A: 10}, {A: 10}, now=30)  # aborted, and the log says the same offset
    watch.look({A: 10}, {A: 11}, now=60)
    assert worst(watch, 60) == Unstable(1, 0.0)


def test_a_partition_that_left_is_forgotten_and_an_unknown_end_is_whole() -> None:
    watch = StableWatch()
    watch.look({A: 10}, {A: 12}, now=0)
    watch.look({B: 3}, {}, now=60)
    assert worst(watch, 60) == Unstable(0, 0.0)
    watch.look({A: 10}, {A: 12}, now=61)
    assert worst(watch, 100).seconds == 39

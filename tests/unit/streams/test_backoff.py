"""Pauses between tries."""

from streams.backoff import Backoff


def test_pauses_double_up_to_the_most_until_they_are_reset() -> None:
    backoff = Backoff(0.1, 1.0, lambda: 1.0)
    assert [backoff.next() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.next() == 0.1


def test_half_of_a_pause_is_jitter() -> None:
    backoff = Backoff(0.1, 1.0, lambda: 0.0)
    assert [backoff.next() for _ in range(2)] == [0.05, 0.1]

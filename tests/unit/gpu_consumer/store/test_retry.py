from gpu_consumer.store.retry import Backoff, Patience, Timing


class Clock:
    """Moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def timing(self, draw: float = 0.5) -> Timing:
        return Timing(monotonic=lambda: self.now, sleep=self.sleep, draw=lambda: draw)


def test_pauses_double_up_to_the_most() -> None:
    backoff = Backoff(0.1, 1.0)
    assert [backoff.pause_seconds(n, 1.0) for n in (1, 2, 3, 4, 5, 500)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_half_of_a_pause_is_jitter() -> None:
    backoff = Backoff(0.1, 1.0)
    assert backoff.pause_seconds(1, 0.0) == 0.05
    assert backoff.pause_seconds(500, 0.0) == 0.5


def test_patience_ends_before_the_deadline_and_never_sleeps_past_it() -> None:
    clock = Clock()
    patience = Patience(10, Backoff(1, 4), clock.timing(draw=1.0))
    waited = 0
    while patience.wait():
        waited += 1
    assert clock.slept == [1, 2, 4]  # another 4 would end at 11
    assert waited == 3
    clock.now = 110.0
    assert patience.over
    assert not patience.wait()

from gpu_consumer.store.retry import Patience, Timing


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


def test_patience_ends_before_the_deadline_and_never_sleeps_past_it() -> None:
    clock = Clock()
    patience = Patience(10, 1, 4, clock.timing(draw=1.0))
    waited = 0
    while patience.wait():
        waited += 1
    assert clock.slept == [1, 2, 4]  # another 4 would end at 11
    assert waited == 3
    clock.now = 110.0
    assert patience.over
    assert not patience.wait()

"""A process that remembers much looks through it less often."""

import gc

from streams.garbage import look_less_often


def test_what_is_there_is_not_looked_through_again() -> None:
    before = gc.get_threshold()
    there: list[object] = []
    try:
        look_less_often()
        assert not any(each is there for each in gc.get_objects())
        assert all(now > then for now, then in zip(gc.get_threshold(), before, strict=True))
        assert gc.isenabled(), "cycles are still found, or the memory would grow"
    finally:
        gc.set_threshold(*before)

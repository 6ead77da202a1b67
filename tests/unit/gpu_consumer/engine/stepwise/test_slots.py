import pytest

from gpu_consumer.engine.stepwise.slots import Slots


def test_who_joins_gets_the_lowest_free_slot() -> None:
    slots = Slots(3)
    assert [slots.join(key) for key in "abc"] == [0, 1, 2]
    slots.end("b", "left")
    assert slots.free == 1
    assert slots.join("d") == 1


def test_a_drawn_one_frees_its_slot_and_still_is_here() -> None:
    slots = Slots(1)
    slots.join("a")
    slots.draw("a")
    assert (slots.free, slots.drawn, "a" in slots, slots.empty) == (1, 1, True, False)
    assert slots.join("b") == 0
    slots.end("a", "made")
    slots.end("b", "failed")
    slots.check()
    assert slots.empty
    assert [slots.ended(how) for how in ("made", "failed", "left")] == [1, 1, 0]


@pytest.mark.parametrize("where", ["in a slot", "drawn"])
def test_nobody_is_here_twice(where: str) -> None:
    slots = Slots(2)
    slots.join("a")
    if where == "drawn":
        slots.draw("a")
    with pytest.raises(AssertionError, match="here already"):
        slots.join("a")


def test_more_than_there_is_room_for_is_our_own_bug() -> None:
    slots = Slots(1)
    slots.join("a")
    with pytest.raises(AssertionError, match="no slot is free"):
        slots.join("b")


def test_a_lost_request_is_noticed() -> None:
    slots = Slots(2)
    slots.join("a")
    slots._slot_of.clear()
    slots._held[0] = None
    with pytest.raises(AssertionError, match="lost"):
        slots.check()

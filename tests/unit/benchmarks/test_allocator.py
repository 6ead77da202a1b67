import random

import pytest

from tests.benchmarks.memory.allocator import KIB, MIB, Allocator, Block, OutOfMemory


@pytest.mark.parametrize(
    ("bytes_", "allocated", "reserved"),
    [
        (1, 512, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # less than 1 MiB and a bit would be left over: not split, so all of it
    ],
)
def test_blocks_and_segments_are_rounded(bytes_: int, allocated: int, reserved: int) -> None:
    allocator = Allocator(100 * MIB)
    allocator.allocate(bytes_)
    assert (allocator.allocated, allocator.reserved) == (allocated, reserved)


def test_a_freed_segment_is_kept_and_used_again() -> None:
    allocator = Allocator(100 * MIB)
    allocator.release(allocator.allocate(30 * MIB))
    assert (allocator.allocated, allocator.reserved, allocator.split) == (0, 30 * MIB, 0)
    allocator.allocate(16 * MIB)
    assert (allocator.reserved, allocator.split) == (30 * MIB, 14 * MIB)


def test_what_is_in_use_cannot_move_so_enough_in_all_may_be_too_little_in_one_piece() -> None:
    allocator = Allocator(100 * MIB)
    whole = allocator.allocate(80 * MIB)
    allocator.release(whole)
    parts = [allocator.allocate(20 * MIB) for _ in range(4)]
    for part in parts[::2]:
        allocator.release(part)
    assert allocator.split == 40 * MIB
    assert allocator.free == 20 * MIB
    with pytest.raises(OutOfMemory, match="20971520 are free"):
        allocator.allocate(30 * MIB)
    allocator.release(parts[1])
    allocator.allocate(30 * MIB)
    allocator.check()


def test_segments_that_are_wholly_free_are_given_back_before_it_gives_up() -> None:
    allocator = Allocator(100 * MIB)
    for _ in range(2):
        allocator.release(allocator.allocate(60 * MIB))
        allocator.release(allocator.allocate(90 * MIB))
    assert allocator.reserved == 90 * MIB
    allocator.elsewhere = 10 * MIB
    allocator.empty_cache()
    allocator.elsewhere = 50 * MIB
    with pytest.raises(OutOfMemory):
        allocator.allocate(51 * MIB)


def test_it_adds_up_whatever_is_asked_of_it() -> None:
    chance = random.Random(1)
    allocator = Allocator(400 * MIB)
    held: list[Block] = []
    refused = 0
    for step in range(3_000):
        if held and chance.random() < 0.5:
            allocator.release(held.pop(chance.randrange(len(held))))
        else:
            try:
                held.append(allocator.allocate(int(KIB * 2 ** chance.uniform(-3, 18))))
            except OutOfMemory:
                refused += 1
        if step % 100 == 0:
            allocator.check()
    assert refused
    for block in held:
        allocator.release(block)
    allocator.empty_cache()
    assert (allocator.allocated, allocator.reserved) == (0, 0)
    allocator.check()

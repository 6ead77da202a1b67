from collections import Counter

from admission.stages.route import preferred

HASHES = [f"{n:064x}" for n in range(800)]


def test_equal_configs_share_a_partition() -> None:
    assert {preferred(HASHES[0], 8) for _ in range(10)} == {preferred(HASHES[0], 8)}


def test_the_choice_is_the_same_in_every_process_and_release() -> None:
    assert [preferred(each, 8) for each in HASHES[:8]] == [6, 2, 4, 4, 4, 2, 6, 1]


def test_many_configs_spread_over_all_partitions() -> None:
    counts = Counter(preferred(each, 8) for each in HASHES)
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1.5 * len(HASHES) / 8


def test_a_partition_more_takes_its_share_and_moves_nothing_else() -> None:
    moved = [each for each in HASHES if preferred(each, 8) != preferred(each, 9)]
    assert all(preferred(each, 9) == 8 for each in moved)
    assert 0 < len(moved) < 2 * len(HASHES) / 9

"""KEDA's arithmetic of a group's offsets, and its waking and laying to sleep."""

import pytest

from infra.scaling.keda import Activation, Partition, active, capped, lag_of, summed


def even(count: int, lag: int) -> list[Partition]:
    return [Partition(committed=5, start=0, end=5 + lag)] * count


def test_lag_is_what_is_not_committed_so_what_is_in_flight_too() -> None:
    assert lag_of([Partition(3, 0, 10), Partition(10, 0, 10)], threshold=10) == 7


def test_a_group_without_offsets_has_what_is_kept_and_no_more() -> None:
    """Cases KEDA-02, KEDA-04, KEDA-05, KEDA-17: no replica for an empty topic, nor for what retention has deleted."""
    assert lag_of([Partition(None, 0, 0)] * 8, threshold=10) == 0
    assert lag_of([Partition(None, 10_000, 10_000)], threshold=10) == 0
    assert lag_of([Partition(None, 40, 47)] * 8, threshold=10) == 56, "expired offsets count consumed records again"
    assert lag_of([Partition(None, 12, 10)], threshold=10) == 0, "retention was faster than the question"


def test_a_marker_at_the_end_of_a_transaction_is_a_lag_of_one_and_the_activation_can_bear_it() -> None:
    """Case KEDA-01."""
    value = lag_of([Partition(4, 0, 5)] * 3, threshold=10)
    assert value == 3
    assert active(value, 0)
    assert not active(value, 3)


def test_no_more_replicas_than_partitions_but_for_one_by_the_integer_division() -> None:
    """Case KEDA-08."""
    assert lag_of(even(4, 100), threshold=10) == 40
    assert lag_of(even(4, 10), threshold=10) == 40
    assert capped(49, 4, threshold=10) == 49, "49 // 10 is not above 4, and 49 / 10 are 5 replicas"
    assert capped(50, 4, threshold=10) == 40


def test_all_lag_of_one_partition_counts_for_all_of_them() -> None:
    """Case KEDA-07: the cap looks at all partitions, not at those with lag; so work is spread before it is appended."""
    assert lag_of([Partition(0, 0, 70), *even(7, 0)], threshold=10) == 70


def test_a_committed_offset_beyond_the_end_counts_against_the_others() -> None:
    assert lag_of([Partition(9, 0, 4), Partition(0, 0, 8)], threshold=10) == 3
    assert capped(-15, 1, threshold=10) == -15


def test_lanes_are_summed() -> None:
    assert summed([32, 48, 64]) == 144


class TestActivation:
    def test_wakes_one_or_the_least_that_is_declared(self) -> None:
        assert Activation(0, 300).wish(0, True, 0) == 1
        assert Activation(3, 300).wish(0, True, 0) == 3

    def test_leaves_what_runs_to_the_autoscaler(self) -> None:
        assert Activation(0, 300).wish(0, True, 7) == 7

    def test_sleeps_from_however_many_once_it_was_quiet_for_longer_than_the_cooldown(self) -> None:
        keda = Activation(0, 300)
        assert keda.wish(0, True, 5) == 5
        assert [keda.wish(now, False, 5) for now in (100, 300, 301)] == [5, 5, 0]

    def test_activity_begins_the_cooldown_anew(self) -> None:
        keda = Activation(0, 300)
        keda.wish(0, True, 5)
        keda.wish(299, True, 5)
        assert keda.wish(500, False, 5) == 5

    @pytest.mark.parametrize("have", [0, 1, 2, 5])
    def test_never_goes_below_what_is_declared(self, have: int) -> None:
        assert Activation(2, 0).wish(1000, False, have) == max(have, 2)

from gpu_consumer.memory import PeakMemory, half, left_to_one, neighbour_took, quantile_of, usable

GB = 10**9


def test_the_preset_counts_until_something_was_measured() -> None:
    memory = PeakMemory()
    assert memory.predict("kind", 4, 3 * GB) == 12 * GB
    memory.observe("kind", 4, 6 * GB)
    assert memory.predict("kind", 4, 3 * GB) == 6 * GB
    assert memory.predict("other", 4, 3 * GB) == 12 * GB


def test_of_a_single_bucket_others_are_taken_for_larger_than_they_may_be() -> None:
    memory = PeakMemory()
    memory.observe("kind", 4, 6 * GB)
    assert memory.predict("kind", 8, 3 * GB) == 12 * GB  # as if nothing of it were fixed
    assert memory.predict("kind", 2, 3 * GB) == 3 * GB
    assert memory.predict("kind", 2, GB) == 4 * GB  # a slot saves what it costs by its preset: 2 GB are fixed


def test_what_others_measured_counts_until_it_is_measured_here() -> None:
    memory = PeakMemory()
    memory.learn("kind", 4, 5 * GB)
    assert memory.predict("kind", 4, GB) == 5 * GB
    memory.observe("kind", 4, 6 * GB)
    memory.learn("kind", 4, 9 * GB)
    assert memory.predict("kind", 4, GB) == 6 * GB


def test_slots_stay_below_nine_tenths_of_what_is_free() -> None:
    memory = PeakMemory()
    memory.observe("kind", 4, 9 * GB)
    memory.observe("kind", 1, 3 * GB)
    assert memory.granted("kind", 4, GB, 10 * GB) == 4
    assert memory.granted("kind", 4, GB, 10 * GB - 2) == 2
    assert memory.granted("kind", 4, GB, 4 * GB) == 1
    assert memory.granted("kind", 4, GB, 3 * GB) == 0
    assert memory.granted("kind", 4, GB, 0) == 0


def test_a_few_measures_do_not_disprove_a_price_that_would_not_fit() -> None:
    memory = PeakMemory()
    for _ in range(19):
        memory.observe("kind", 2, 2 * GB)
    assert memory.granted("kind", 4, 3 * GB, 11 * GB) == 2  # four light pictures would fit; four as priced would not
    memory.observe("kind", 2, 2 * GB)
    assert memory.granted("kind", 4, 3 * GB, 11 * GB) == 4


def test_a_rare_heavy_batch_is_given_the_margin_but_no_more() -> None:
    memory = PeakMemory()
    for bytes_ in [5 * GB] * 63 + [9 * GB]:
        memory.observe("kind", 4, bytes_)
    assert memory.predict("kind", 4, GB) == 5 * GB
    assert memory.granted("kind", 4, GB, 9 * GB) == 4
    assert memory.granted("kind", 4, GB, 9 * GB - 1) == 2


def test_an_odd_bucket_is_halved_upwards_as_the_engine_does() -> None:
    memory = PeakMemory()
    granted = [memory.granted("kind", 5, GB, free * GB, share=1.0) for free in (5, 4, 3, 2, 1)]
    assert granted == [5, 3, 3, 2, 1]
    assert half(1) == 1


def test_one_slot_may_run_after_one_slot_ran_out_of_memory() -> None:
    memory = PeakMemory()
    memory.out_of_memory("kind", 1)
    assert memory.granted("kind", 4, GB, 100 * GB) == 1


def test_after_running_out_of_memory_the_largest_counts() -> None:
    memory = PeakMemory()
    for bytes_ in [GB] * 39 + [2 * GB]:
        memory.observe("kind", 2, bytes_)
    assert memory.predict("kind", 2, GB) == GB
    memory.out_of_memory("kind", 4)
    assert memory.predict("kind", 2, GB) == 2 * GB


def test_a_neighbour_that_took_the_memory_meanwhile_is_told_from_a_batch_too_large() -> None:
    """Case GPU-13."""
    assert neighbour_took(free_before=40 * GB, free_now=16 * GB)
    assert not neighbour_took(free_before=40 * GB, free_now=39 * GB)


def test_processes_that_share_weights_share_the_rest_evenly() -> None:
    assert left_to_one(80 * GB, 1, 30 * GB, 0) == 50 * GB
    assert left_to_one(80 * GB, 2, 30 * GB, 30 * GB) == 25 * GB, "they are there once"
    assert left_to_one(80 * GB, 2, 36 * GB, 30 * GB) == 19 * GB, "its own model is its own affair"
    assert left_to_one(80 * GB, 2, 60 * GB, 0) < 0


def test_unused_parts_of_split_blocks_are_not_counted_on() -> None:
    """Case GPU-13: what neighbours hold is missing from `free`."""
    assert usable(free=10 * GB, reserved=5 * GB, allocated=3 * GB, split=GB) == 11 * GB
    assert usable(free=0, reserved=3 * GB, allocated=3 * GB, split=GB) == 0


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile_of([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile_of(range(1, 101), 0.95) == 95

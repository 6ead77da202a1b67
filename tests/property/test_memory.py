"""Granting slots: never more than fits by its own prediction, never more for less, and a limit that stays."""

from hypothesis import given
from hypothesis import strategies as st

from gpu_consumer.memory import PeakMemory, half

MIB = 1 << 20
BUCKETS = st.integers(1, 64)
BYTES = st.integers(0, 80_000 * MIB)
MEASURES = st.lists(st.tuples(BUCKETS, BYTES), max_size=30)


def taught(measures: list[tuple[int, int]], told: list[tuple[int, int]], window: int = 8) -> PeakMemory:
    memory = PeakMemory(window=window)
    for bucket, bytes_ in told:
        memory.learn("kind", bucket, bytes_)
    for bucket, bytes_ in measures:
        memory.observe("kind", bucket, bytes_)
    return memory


@given(measures=MEASURES, told=MEASURES, bucket=BUCKETS, preset=BYTES, free=BYTES, share=st.floats(0.1, 1))
def test_what_is_granted_is_predicted_to_fit(
    measures: list[tuple[int, int]], told: list[tuple[int, int]], bucket: int, preset: int, free: int, share: float
) -> None:
    memory = taught(measures, told)
    granted = memory.granted("kind", bucket, preset, free, share)
    assert 0 <= granted <= bucket
    if granted:
        assert memory.predict("kind", granted, preset) <= share * free
        assert memory.most("kind", granted, preset) <= free
    larger = bucket  # and the next larger of the halves would not have fitted
    while half(larger) > max(granted, 1):
        larger = half(larger)
    if granted < bucket:
        refused = larger if granted else 1
        assert memory.predict("kind", refused, preset) > share * free or memory.most("kind", refused, preset) > free


@given(measures=MEASURES, told=MEASURES, buckets=st.tuples(BUCKETS, BUCKETS), preset=BYTES)
def test_more_slots_never_take_less(
    measures: list[tuple[int, int]], told: list[tuple[int, int]], buckets: tuple[int, int], preset: int
) -> None:
    memory = taught(measures, told)
    for estimate in (memory.predict, memory.most):
        assert 0 <= estimate("kind", min(buckets), preset) <= estimate("kind", max(buckets), preset)


@given(measures=MEASURES, bucket=BUCKETS, preset=BYTES, free=st.tuples(BYTES, BYTES))
def test_more_memory_never_grants_fewer(
    measures: list[tuple[int, int]], bucket: int, preset: int, free: tuple[int, int]
) -> None:
    memory = taught(measures, [])
    assert memory.granted("kind", bucket, preset, min(free)) <= memory.granted("kind", bucket, preset, max(free))


@given(measures=MEASURES, failed=BUCKETS, bucket=BUCKETS, preset=BYTES, free=BYTES, later=MEASURES)
def test_out_of_memory_is_a_limit_that_stays(
    measures: list[tuple[int, int]],
    failed: int,
    bucket: int,
    preset: int,
    free: int,
    later: list[tuple[int, int]],
) -> None:
    memory = taught(measures, [])
    memory.out_of_memory("kind", failed)
    for each, bytes_ in later:
        memory.observe("kind", each, bytes_)
    granted = memory.granted("kind", bucket, preset, free)
    assert granted <= half(failed)
    if later:
        assert memory.predict("kind", later[-1][0], preset) >= max(b for n, b in later[-8:] if n == later[-1][0])
    assert memory.granted("other", bucket, 0, free) == bucket


@given(window=st.integers(1, 20), values=st.lists(BYTES, min_size=1, max_size=60))
def test_only_the_window_counts(window: int, values: list[int]) -> None:
    memory = taught([(4, each) for each in values], [], window)
    last = sorted(values[-window:])
    predicted = memory.predict("kind", 4, 0)
    assert predicted in last
    assert sum(each <= predicted for each in last) >= 0.95 * len(last)


@given(fixed=st.integers(0, 1000), each=st.integers(0, 1000), known=st.sets(BUCKETS, min_size=2), bucket=BUCKETS)
def test_a_fixed_part_and_a_part_a_slot_are_found(fixed: int, each: int, known: set[int], bucket: int) -> None:
    memory = taught([(n, fixed + n * each) for n in known], [])
    assert memory.predict("kind", bucket, 0) == fixed + bucket * each

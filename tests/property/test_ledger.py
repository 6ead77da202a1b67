"""A ledger against the plain set of what was finished."""

from hypothesis import given
from hypothesis import strategies as st

from gpu_consumer.ledger import Ledger, Mark

OFFSETS = st.integers(0, 300)
MARKS = st.builds(
    Mark,
    incarnation=st.sampled_from(["", "a", "b"]),
    since_ms=st.integers(0, 2**45),
    until_ms=st.integers(0, 2**45),
    engine_deaths=st.integers(0, 3),
    consumer_deaths=st.integers(0, 10),
)
STEP = st.one_of(
    st.tuples(st.just("finish"), OFFSETS),
    st.tuples(st.just("range"), OFFSETS, st.integers(0, 80)),
    st.tuples(st.just("mark"), OFFSETS, MARKS),
    st.tuples(st.just("unmark"), OFFSETS),
)


@given(st.lists(STEP, max_size=60))
def test_the_watermark_is_the_first_offset_that_is_not_finished(steps: list[tuple[object, ...]]) -> None:
    ledger, finished = Ledger(), set[int]()
    for step in steps:
        before = ledger.watermark
        match step:
            case ("finish", int(offset)) if offset not in finished:
                ledger.finish(offset)
                finished.add(offset)
            case ("range", int(start), int(length)):
                ledger.finish_range(start, start + length)
                finished.update(range(start, start + length))
            case ("mark", int(offset), Mark() as mark) if offset not in finished:
                ledger.mark(offset, mark)
            case ("unmark", int(offset)):
                ledger.unmark(offset)
        assert ledger.watermark >= before, "a watermark never falls"
        ledger = Ledger.decode(ledger.encode())
        assert ledger.watermark == next(offset for offset in range(1000) if offset not in finished)
        assert all(ledger.done(offset) == (offset in finished) for offset in range(400))
        assert not finished & ledger.marks.keys(), "what is finished does not run"


@given(st.permutations(list(range(40))))
def test_any_order_of_finishing_ends_at_the_same_ledger(order: list[int]) -> None:
    ledger = Ledger()
    for offset in order:
        ledger.finish(offset)
    assert (ledger.watermark, ledger.bits) == (40, 0)


@given(st.sets(OFFSETS), MARKS)
def test_a_copy_changes_alone(finished: set[int], mark: Mark) -> None:
    ledger = Ledger()
    for offset in finished:
        ledger.finish(offset)
    ledger.mark(301, mark)
    before = ledger.encode()
    copy = ledger.copy()
    copy.finish(301)
    copy.finish_range(0, 400)
    assert ledger.encode() == before

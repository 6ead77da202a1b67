"""What is known of a pool's work, when any of its sources is away."""

import math
from dataclasses import replace

import pytest

from gpu_consumer.ledger import Ledger, Mark
from infra.scaler.book import Book, Place, Work
from infra.scaler.signal import EXPIRED_SECONDS, Fleet, Signal
from infra.scaling.keda import Partition

NOW = 1_000.0
USUAL = 7.0
HERE, THERE = Place("standard", 0), Place("bulk", 1)
FLEET = Fleet(ready=1, load_seconds=45.0, replicas_max=8)


@pytest.fixture
def book() -> Book:
    return Book(partitions=2, item_seconds=USUAL, items_max=100)


def signal(book: Book, now: float = NOW) -> Signal:
    return book.signal(FLEET, now)


def look(book: Book, offsets: dict[Place, Partition]) -> None:
    """With nothing new while it is under way."""
    book.look(offsets, book.watermarks())


def fill(book: Book, *seconds: float, first: int = 0, deadline: float = math.inf) -> None:
    for offset, each in enumerate(seconds, start=first):
        book.read(HERE, offset, Work(each, "red", 1), deadline)


def running(since: float, until: float, incarnation: str = "one") -> Mark:
    return Mark(incarnation, int(since * 1000), int(until * 1000))


def test_offsets_alone_are_lag_times_the_usual_job(book: Book) -> None:
    look(book, {HERE: Partition(4, 0, 10), THERE: Partition(None, 3, 5)})
    found = signal(book)
    assert (found.waiting["standard"], found.waiting["bulk"], found.running) == (6 * USUAL, 2 * USUAL, 0.0)
    assert found.value(60) == 8 * USUAL


def test_a_new_group_of_a_topic_whose_records_expired_has_nothing_to_do(book: Book) -> None:
    """Cases KEDA-02, KEDA-04, KEDA-05 and KEDA-17."""
    look(book, {HERE: Partition(None, 10_000, 10_000), THERE: Partition(None, 0, 0)})
    assert not signal(book).active(0)


def test_what_was_read_costs_what_it_says_and_the_rest_as_much_on_average(book: Book) -> None:
    look(book, {HERE: Partition(0, 0, 4)})
    fill(book, 10.0, 30.0)
    assert signal(book).waiting["standard"] == 10 + 30 + 2 * 20
    assert book.item_seconds == 20


def test_a_record_is_known_before_the_next_look_at_the_ends(book: Book) -> None:
    look(book, {HERE: Partition(5, 0, 5)})
    fill(book, 10.0, first=5)
    assert signal(book).seconds == 10
    look(book, {HERE: Partition(5, 0, 5)})  # which was under way meanwhile
    assert signal(book).seconds == 10


def test_a_record_whose_price_cannot_be_read_is_the_usual_one(book: Book) -> None:
    book.read(HERE, 0, None, math.inf)
    assert signal(book).seconds == USUAL


def test_what_was_measured_since_counts_for_what_was_read_before(book: Book) -> None:
    book.read(HERE, 0, Work(30.0, "red", 2), NOW + 5000)
    book.read(HERE, 1, Work(30.0, "blue", 2), math.inf)
    book.read(HERE, 2, None, math.inf)
    assert signal(book).seconds == 90
    book.measure({"red": 5.0})
    assert signal(book).seconds == 10 + 30 + 30
    book.read(HERE, 3, Work(30.0, "red", 1), math.inf)
    assert signal(book).seconds == 10 + 30 + 30 + 5
    assert signal(book).replicas == 1  # its deadline stayed


def test_a_measure_of_something_broken_counts_as_far_as_is_likely(book: Book) -> None:
    fill(book, 30.0)
    book.measure({"red": 1e6})
    assert signal(book).seconds == 300
    book.measure({"red": 1e-6})
    assert signal(book).seconds == 3


def test_what_costs_nothing_is_still_to_be_done(book: Book) -> None:
    fill(book, 0.0)
    assert signal(book).active(0)
    assert signal(book).value(60) == EXPIRED_SECONDS


def test_what_is_committed_is_done_by_whoever_says_so_first(book: Book) -> None:
    fill(book, 10.0, 20.0, 40.0)
    look(book, {HERE: Partition(1, 0, 3)})
    assert signal(book).seconds == 60
    book.take_ledger(HERE, Ledger(watermark=2))
    assert signal(book).seconds == 40
    look(book, {HERE: Partition(1, 0, 3)})  # older than the ledger, or a group that was reset: consumers overrule it
    assert signal(book).seconds == 40
    look(book, {HERE: Partition(3, 0, 3)})
    assert not signal(book).active(0)


def test_what_is_finished_beyond_the_watermark_does_not_count(book: Book) -> None:
    look(book, {HERE: Partition(0, 0, 5)})
    fill(book, 10.0, 20.0, 40.0)
    book.take_ledger(HERE, Ledger(watermark=0, bits=0b01010))  # the second, and the fourth, which was not read
    assert signal(book).waiting["standard"] == pytest.approx(10 + 40 + book.item_seconds)


def test_what_runs_is_what_is_left_of_it(book: Book) -> None:
    fill(book, 100.0, 100.0, 100.0)
    marks = {0: running(NOW - 30, NOW + 300), 1: running(NOW - 200, NOW + 300)}
    book.take_ledger(HERE, Ledger(marks=marks))
    found = signal(book)
    assert (found.running, found.waiting["standard"]) == (85 + 10, 100)  # half the time each; a tenth is left at least
    assert found.value(60) == 60 + 10 + 60


@pytest.mark.parametrize(
    "mark", [running(NOW - 500, NOW - 200), replace(running(NOW - 10, NOW + 300), incarnation=""), None]
)
def test_what_nobody_runs_any_more_waits(book: Book, mark: Mark | None) -> None:
    """Its holder is frozen, or has handed it back."""
    fill(book, 100.0)
    book.take_ledger(HERE, Ledger(marks={} if mark is None else {0: mark}))
    assert (signal(book).running, signal(book).seconds) == (0.0, 100.0)


def test_the_clock_of_a_consumer_that_is_ahead_makes_no_job_longer(book: Book) -> None:
    """What began in the future has all of itself left, and not the difference beside."""
    look(book, {HERE: Partition(0, 0, 2)})
    fill(book, 10.0, 10.0, deadline=NOW + 100)
    book.take_ledger(HERE, Ledger(0, 0, {0: running(NOW + 3600, NOW + 7200)}))
    found = signal(book)
    assert (found.running, found.waiting["standard"], found.replicas) == (10.0, 10.0, 1)


def test_an_expired_job_takes_no_gpu_only_somebody_to_say_so(book: Book) -> None:
    fill(book, 100.0, deadline=NOW + 50)
    assert signal(book).seconds == 100
    late = signal(book, NOW + 50)
    assert (late.seconds, late.replicas) == (EXPIRED_SECONDS, 0)
    assert late.active(0)


def test_near_deadlines_ask_for_replicas(book: Book) -> None:
    fill(book, *[30.0] * 4, deadline=NOW + 100)
    assert signal(book).replicas == 2
    assert signal(book).value(600) == 2 * 600
    fill(book, *[30.0] * 4, first=4, deadline=NOW + 90_000)
    assert signal(book).replicas == 2


def test_no_more_is_remembered_than_there_is_room_for(book: Book) -> None:
    small = Book(partitions=1, item_seconds=USUAL, items_max=3)
    fill(small, 5.0, 5.0, 5.0)
    assert not small.room(HERE)
    look(small, {HERE: Partition(0, 0, 1000)})
    assert signal(small).seconds == 1000 * 5.0
    small.take_ledger(HERE, Ledger(watermark=2))
    assert small.room(HERE)
    assert small.read_from(HERE) == 3


def test_reading_goes_on_where_it_was_and_after_a_loss_where_there_is_something(book: Book) -> None:
    look(book, {HERE: Partition(4, 0, 10)})
    assert book.read_from(HERE) == 4
    fill(book, 1.0, 1.0, first=4)
    assert book.read_from(HERE) == 6
    fill(book, 50.0, first=5)  # twice, as after an error
    assert signal(book).seconds == 2 + 4 * 1.0
    book.forget(HERE)
    assert book.read_from(HERE) == 4
    book.look_at_bounds(HERE, 8, 10, book.watermarks())
    assert book.read_from(HERE) == 8
    assert signal(book).seconds == 2 * book.item_seconds


MADE_ANEW = Ledger(watermark=100, bits=0b10, marks={102: running(NOW - 5, NOW + 300)})


def test_a_ledger_of_more_than_there_ever_was_is_not_believed(book: Book) -> None:
    """Its topic was made anew, and the group's offsets went with the old one: 0 would let the pool sleep."""
    look(book, {HERE: Partition(100, 0, 100)})
    book.take_ledger(HERE, MADE_ANEW)
    assert (book.disbelieved(), signal(book).seconds) == ([], 0)
    look(book, {HERE: Partition(None, 0, 3)})
    assert book.disbelieved() == [HERE]
    assert (signal(book).seconds, signal(book).running) == (3 * USUAL, 0)
    assert book.read_from(HERE) == 0
    fill(book, 10.0, 20.0)
    assert signal(book).seconds == pytest.approx(10 + 20 + book.item_seconds)


def test_nor_is_a_groups_offset(book: Book) -> None:
    look(book, {HERE: Partition(100, 0, 3)})
    assert book.disbelieved() == [HERE]
    assert signal(book).seconds == 3 * USUAL
    look(book, {HERE: Partition(3, 0, 3)})
    assert (book.disbelieved(), signal(book).seconds) == ([], 0)


def test_a_ledger_that_is_newer_than_the_ends_is_believed(book: Book) -> None:
    """A job that comes and is done between two looks, or while one is under way, is no news of a lost topic."""
    look(book, {HERE: Partition(0, 0, 0)})
    asked = book.watermarks()
    book.take_ledger(HERE, Ledger(watermark=1))
    assert book.disbelieved() == []
    book.look({HERE: Partition(0, 0, 0)}, asked)
    assert (book.disbelieved(), signal(book).seconds) == ([], 0)
    look(book, {HERE: Partition(1, 0, 1)})
    assert (book.disbelieved(), signal(book).seconds) == ([], 0)


def test_a_ledger_made_anew_is_believed_again(book: Book) -> None:
    book.take_ledger(HERE, MADE_ANEW)
    look(book, {HERE: Partition(None, 0, 3)})
    book.take_ledger(HERE, Ledger(watermark=2))
    look(book, {HERE: Partition(2, 0, 3)})
    assert (book.disbelieved(), signal(book).seconds) == ([], USUAL)


def test_bounds_that_are_seen_without_the_group_judge_a_ledger_too(book: Book) -> None:
    book.take_ledger(HERE, MADE_ANEW)
    book.look_at_bounds(HERE, 0, 3, book.watermarks())
    assert book.disbelieved() == [HERE]
    assert signal(book).seconds == 3 * USUAL

from admission.window import Name, Window

WINDOW_MS = 1000


def name(number: int, appended_ms: int, job_id: str = "") -> Name:
    return Name(number, "digest", number, appended_ms, job_id or f"job-{number}")


def test_a_name_leaves_by_the_time_its_request_was_appended() -> None:
    window = Window(WINDOW_MS)
    window.add(b"a", name(1, 100))
    window.add(b"b", name(2, 200))
    window.expire(1099, ())
    assert set(window) == {b"a", b"b"}
    window.expire(1100, ())
    assert set(window) == {b"b"}


def test_a_name_is_gone_at_its_time_even_before_expire_came_by() -> None:
    window = Window(WINDOW_MS)
    window.add(b"a", name(1, 100))
    assert window.get(b"a", 1099, ()) is not None
    assert window.get(b"a", 1100, ()) is None
    assert window.get(b"a", 1100, {"job-1"}) is not None


def test_an_outstanding_job_holds_its_name_and_lets_the_log_go() -> None:
    window = Window(WINDOW_MS)
    window.add(b"a", name(1, 100))
    window.add(b"b", name(2, 500))
    window.expire(1200, {"job-1"})
    assert set(window) == {b"a", b"b"}
    assert window.oldest(1200, 3) == 2
    window.release(b"a", "job-1", 1200)
    assert set(window) == {b"b"}


def test_a_released_name_stays_to_the_end_of_its_window() -> None:
    window = Window(WINDOW_MS)
    window.add(b"a", name(1, 100))
    window.release(b"a", "job-1", 1099)
    assert set(window) == {b"a"}


def test_times_that_step_back_hold_nobody_up() -> None:
    window = Window(WINDOW_MS)
    window.add(b"late", name(1, 900))
    window.add(b"early", name(2, 100))
    window.expire(1100, ())
    assert set(window) == {b"late"}


def test_a_name_taken_over_is_the_later_decision_s() -> None:
    window = Window(WINDOW_MS)
    window.add(b"a", name(1, 100))
    window.add(b"a", name(2, 1500))
    window.expire(2000, ())
    found = window.get(b"a", 2000, ())
    assert found is not None
    assert found.number == 2
    assert window.oldest(2000, 3) == 2
    window.release(b"a", "job-1", 9000)
    assert set(window) == {b"a"}


def test_the_oldest_of_an_empty_window_is_the_next() -> None:
    window = Window(WINDOW_MS)
    window.add(b"a", name(1, 100))
    assert window.oldest(100, 2) == 1
    window.expire(1100, ())
    assert window.oldest(1100, 2) == 2


def test_a_held_name_whose_decision_left_the_log_leaves_in_its_time_too() -> None:
    window = Window(WINDOW_MS)
    window.hold(b"a", name(1, 100))
    window.hold(b"a", name(1, 100))
    window.expire(1099, ())
    assert len(window) == 1
    window.expire(1100, ())
    assert len(window) == 0

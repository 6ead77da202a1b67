"""Where a partition goes on, from what its logs say; or the refusal to guess."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from admission.errors import StateRefused
from admission.fold import Fold
from schemas.tenancy import Cursor

ACCEPT = "or accept the loss with the flag of kiln admission"
_NO_BIRTH = UUID(int=0)


@dataclass(slots=True)
class Start:
    """The cursor, live. Work of requests from `resend_from` on is to be produced again.

    Before `names_whole_ms` of the quota clock a name may have been known and be forgotten.
    """

    birth: UUID = _NO_BIRTH
    next: int = 0
    emitted_through: int = 0
    clock_ms: int = 0
    results_next: int = 0
    decided: int = 0
    emitted: int = 0
    oldest: int = 1
    resend_from: int = 0
    names_whole_ms: int = 0
    lossy: bool = False


def begin(
    fold: Fold,
    birth: Callable[[], UUID],
    partition: int,
    log_end: int,
    committed: int | None,
    results_end: int | None,
    *,
    now_ms: int,
    window_ms: int,
    accept_loss: bool,
) -> Start:
    """Raises StateRefused unless the logs are whole or the loss is accepted.

    Decisions that left the log in a quiet time are not missed: their names are over for every request to come. Only one
    that was appended long ago and not decided yet could still repeat them, so the start says from when on it is whole.
    """
    whole_ms = 0 if fold.cursor is None else fold.cursor.clock_ms + window_ms
    problem = _problem(fold, partition, log_end, committed, results_end, over=now_ms >= whole_ms)
    if problem is not None and not accept_loss:
        raise StateRefused(f"{problem}, {ACCEPT}")
    cursor = fold.cursor
    if cursor is None:
        return _anew(fold, birth, min(committed or 0, log_end), lossy=problem is not None)
    start = Start(
        birth=cursor.birth,
        next=cursor.next,
        emitted_through=cursor.emitted_through,
        clock_ms=cursor.clock_ms,
        results_next=cursor.results_next,
        decided=cursor.decided,
        emitted=cursor.emitted,
        oldest=cursor.oldest,
        resend_from=cursor.emitted_through,
        names_whole_ms=0 if accept_loss or not _has_aged(fold, cursor) else whole_ms,
        lossy=problem is not None,
    )
    if start.lossy:
        _cut(start, fold, birth, log_end, results_end)
    return start


def _problem(
    fold: Fold, partition: int, log_end: int, committed: int | None, results_end: int | None, *, over: bool
) -> str | None:
    cursor = fold.cursor
    if cursor is None:
        if fold.names:
            return (
                f"partition {partition} has decisions and no cursor, so its tenants log was lost; "
                f"bring the tenants topic back"
            )
        if committed:
            return (
                f"partition {partition} has empty logs beside the committed offset {committed}; "
                f"bring decisions and tenants back"
            )
        return None
    if cursor.next > log_end:
        return (
            f"requests[{partition}] ends at {log_end} and {cursor.next} was decided next, so the log shrank; "
            f"bring it back"
        )
    if results_end is not None and cursor.results_next > results_end:
        return (
            f"results[{partition}] ends at {results_end} and {cursor.results_next} was to be read next, "
            f"so the log shrank; bring it back"
        )
    return None if over and _has_aged(fold, cursor) else _gap(fold, cursor, partition)


def _has_aged(fold: Fold, cursor: Cursor) -> bool:
    """Whether retention took the oldest decisions of the window, and nothing else is missing."""
    whole_from = _whole_from(fold, cursor.decided)
    without_a_hole = not fold.names or fold.names[0][1].number == whole_from
    return cursor.oldest < whole_from <= cursor.emitted + 1 and without_a_hole


def _gap(fold: Fold, cursor: Cursor, partition: int) -> str | None:
    expected = cursor.oldest
    for _, name in fold.names:
        if name.number < cursor.oldest:
            continue
        if name.number != expected:
            break
        expected += 1
    if expected == cursor.decided + 1:
        return None
    if expected > cursor.decided:
        return (
            f"partition {partition} has decision {expected - 1} and its cursor ends at {cursor.decided}; "
            f"bring the tenants topic back"
        )
    return (
        f"decision {expected} of partition {partition} is missing and {cursor.oldest} to {cursor.decided} are needed, "
        f"so the decisions log was truncated; bring it back"
    )


def _anew(fold: Fold, birth: Callable[[], UUID], next_offset: int, *, lossy: bool) -> Start:
    decided = max((name.number for _, name in fold.names), default=0)
    return Start(
        birth=birth(),
        next=next_offset,
        emitted_through=next_offset,
        decided=decided,
        emitted=decided,
        oldest=_whole_from(fold, decided),
        resend_from=next_offset,
        lossy=lossy,
    )


def _cut(start: Start, fold: Fold, birth: Callable[[], UUID], log_end: int, results_end: int | None) -> None:
    """Bring the cursor within what is there, so that the next opening finds nothing missing.

    A requests log that shrank will use its offsets again, so its jobs need a new birth.
    """
    if start.next > log_end:
        start.birth = birth()
        start.next = log_end
    if results_end is not None:
        start.results_next = min(start.results_next, results_end)
    start.decided = max([start.decided, *(name.number for _, name in fold.names)])
    start.oldest = _whole_from(fold, start.decided)
    start.emitted_through, start.emitted = start.next, start.decided


def _whole_from(fold: Fold, decided: int) -> int:
    """The smallest number from which every decision to `decided` is there; older names are forgotten."""
    oldest = decided + 1
    for _, name in reversed(fold.names):
        if name.number != oldest - 1:
            break
        oldest = name.number
    return oldest

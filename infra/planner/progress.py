"""How far a plan has come: a bar on a terminal, else a line every so often; to stderr, so that stdout is the plan's."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from schemas.counted import counted

LINE_SECONDS = 10.0  # between two lines in a log


@contextmanager
def shown(
    requests: int, console: Console, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[float], None]]:
    """Yields what is to be told the share that is done. `console`: of stderr."""
    if not console.is_terminal:
        console.print(f"replaying {counted(requests, 'request')} with each way and setting")
        yield _Lines(console, clock)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(f"replaying {counted(requests, 'request')}", total=1.0)
        yield lambda share: bar.update(task, completed=share)


class _Lines:
    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._began = self._told = clock()

    def __call__(self, share: float) -> None:
        now = self._clock()
        if now - self._told >= LINE_SECONDS:
            self._told = now
            self._console.print(f"{share:.0%} after {now - self._began:.0f} s")

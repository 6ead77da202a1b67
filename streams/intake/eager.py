"""A coroutine that is run at once as far as it goes, and needs a task only where it has to wait. Python 3.12 can do so
by itself (`asyncio.eager_task_factory`)."""

from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any


class Begun:
    """The rest of a coroutine that waits for something. It is awaited once, as the coroutine would have been."""

    def __init__(self, work: Coroutine[Any, Any, object], waits: Any) -> None:
        self._work = work
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, object]:
        waits = self._waits
        while True:
            try:
                yield waits
            except BaseException as error:  # a cancel above all: what becomes of it is for the coroutine to say
                step = partial(self._work.throw, error)
            else:
                step = partial(self._work.send, None)
            try:
                waits = step()
            except StopIteration as ended:
                return ended.value


def begin(work: Coroutine[Any, Any, object]) -> Begun | None:
    """Run `work` until it ends, which gives None, or waits. Raises what it raises."""
    try:
        return Begun(work, work.send(None))
    except StopIteration:
        return None

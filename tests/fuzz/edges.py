"""Which edges between lines of our own code a call has taken: what guides a fuzz to records that reach further."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import admission
import schemas
from admission import text

T = TypeVar("T")
Edge = tuple[int, int]
_FOLDERS = tuple(str(Path(module.__file__ or "").parent) for module in (admission, schemas))


def forget() -> None:
    """Empty the caches of our own code: what an earlier run left in them takes no edge in the next."""
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] in ("admission", "schemas")]
    for value in [value for module in ours for value in vars(module).values()]:
        if callable(clear := getattr(value, "cache_clear", None)):
            clear()
    for table in (text._TABLE, text._UNSEEN):
        table.clear()


class Edges:
    """Those seen by any call of run(). Slows it some three times; not for records of thousands of members."""

    def __init__(self) -> None:
        self.seen: set[Edge] = set()
        self._ours: dict[CodeType, bool] = {}
        self._last = 0
        self._new = False

    def run(self, call: Callable[[], T]) -> tuple[T, bool]:
        """The result, and whether an edge was taken that no call had taken before."""
        self._last, self._new = 0, False
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            return call(), self._new
        finally:
            sys.settrace(before)

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(_FOLDERS)
        return self._line if ours else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        here = hash((frame.f_code.co_firstlineno, frame.f_code.co_name, frame.f_lineno))
        edge = (self._last, here)
        if edge not in self.seen:
            self.seen.add(edge)
            self._new = True
        self._last = here
        return self._line

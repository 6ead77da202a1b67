"""What a service says on stderr: its own few lines, and the libraries' only where they matter.

Every line is masked, its traceback included, and so is what an uncaught error leaves. Prompts are in no line of ours.
"""

import logging
import sys
import threading
from copy import copy
from types import TracebackType
from typing import TypeAlias

from streams.masking import masked

_OURS = ("admission", "gpu_consumer", "streams")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

log = logging.getLogger(__name__)


class MaskingFormatter(logging.Formatter):
    """A line as it would be written, without secrets and personal data. Its time, level and logger stay as they are."""

    def format(self, record: logging.LogRecord) -> str:
        safe = copy(record)
        safe.msg, safe.args = masked(record.getMessage()), None
        safe.exc_text = None  # another handler's, which may not be masked
        return super().format(safe)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging's own name
        return masked(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return masked(super().formatStack(stack_info))


def log_to_stderr(*, verbose: bool) -> None:
    """Our own lines from INFO on; `verbose` adds those of the libraries.

    While a broker is down the clients log a hundred lines a second, which would hide the few of ours (case FST-08).
    """
    handler = logging.StreamHandler()
    handler.setFormatter(MaskingFormatter(_FORMAT))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    if verbose:
        return
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    log.critical("ended by an error that nobody expected", exc_info=(kind, error, trace))


def _uncaught_in_thread(raised: threading.ExceptHookArgs) -> None:
    if raised.exc_value is not None and not issubclass(raised.exc_type, SystemExit):
        name = raised.thread.name if raised.thread else "?"
        caught = (raised.exc_type, raised.exc_value, raised.exc_traceback)
        log.critical("the thread %s ended by an error that nobody expected", name, exc_info=caught)

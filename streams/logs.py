"""What a service says on stderr: its own few lines, and the libraries' only where they matter.

Every line is masked, its traceback included, and so is what an uncaught error leaves. Prompts are in no line of ours.
As text, or as a JSON object a line, whose members are FIELDS and no others.
"""

import json
import logging
import sys
import threading
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TypeAlias

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.settings import read_settings
from streams.masking import masked

_OURS = ("admission", "gpu_consumer", "infra", "streams")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

log = logging.getLogger(__name__)


class LogSettings(BaseSettings):
    """Of every service. The environment is read here."""

    model_config = SettingsConfigDict(env_prefix="KILN_LOG_", frozen=True)

    format: Literal["text", "json"] = Field(default="text", description="json: an object a line, for machines.")


@dataclass(frozen=True, slots=True)
class LogField:
    """A member of a line of JSON. `free`: it may hold what a sender or a library wrote, and is masked."""

    name: str
    kind: Literal["string", "number", "object"]
    meaning: str
    free: bool = False


ALWAYS: tuple[LogField, ...] = (
    LogField("time", "string", "UTC, ISO 8601 with milliseconds."),
    LogField("level", "string", "DEBUG, INFO, WARNING, ERROR or CRITICAL."),
    LogField("logger", "string", "The module that says it."),
    LogField("message", "string", "The sentence, as the text form has it.", free=True),
)
# Given by `extra=`. What is not in this list is left out, so that nothing enters a log unseen.
EXTRAS: tuple[LogField, ...] = (
    LogField("exception", "string", "The traceback of an error.", free=True),
    LogField("job_id", "string", "Of the job that the line is about."),
    LogField("tenant", "string", "Whose job it is.", free=True),
    LogField("request_id", "string", "Its request.", free=True),
    LogField("config", "string", "`name@version` of its configuration."),
    LogField("config_hash", "string", "SHA-256 of that."),
    LogField("lane", "string", "Where it waited."),
    LogField("attempt", "number", "1 for its first run."),
    LogField("memory", "object", "Bytes of the device as the engine last said: allocated, reserved, predicted, free."),
    LogField("trace_id", "string", "Of its trace, where it has one."),
)
FIELDS = ALWAYS + EXTRAS


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


class JsonFormatter(logging.Formatter):
    """A line as one JSON object, masked as text is."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = masked(self.formatException(record.exc_info))
        elif record.stack_info:
            line["exception"] = masked(self.formatStack(record.stack_info))
        for field in EXTRAS:
            value = record.__dict__.get(field.name)
            if value is not None:
                line[field.name] = masked(str(value)) if field.free else value
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(*, verbose: bool) -> None:
    """Our own lines from INFO on; `verbose` adds those of the libraries. Raises CommandError where KILN_LOG_FORMAT is
    neither text nor json.

    While a broker is down the clients log a hundred lines a second, which would hide the few of ours (case FST-08).
    """
    handler = logging.StreamHandler()
    as_json = read_settings(LogSettings).format == "json"
    handler.setFormatter(JsonFormatter() if as_json else MaskingFormatter(_FORMAT))
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

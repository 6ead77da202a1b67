"""Errors of reading what others wrote, grouped by what the reader does with them; and any error in words."""

import re

_NUMBER = re.compile(r"^\[(?:Errno|Error) -?\d+\] ")
_SERVER = re.compile(r"\('([^']+)', (\d+), <[^>]+>\)")  # as aiokafka has them
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class SchemaError(Exception):
    """Base of this package."""


class Undecodable(SchemaError):
    """The bytes are no strict JSON of ours. Dead-letter the record; another try gives the same."""


class UnknownVersion(SchemaError):
    """Written by a newer version of promptkiln. Hold the record until this process is upgraded; never fail it."""


class CatalogueError(SchemaError):
    """A file of configurations, pools or tenants is wrong. The process must not start."""


class CommandError(Exception):
    """A sentence for the person at the terminal, with the cure in it; `code` is the exit status."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code


def told(error: BaseException) -> str:
    """What went wrong, for a sentence to people: what the error says, on one line; where it says nothing, its kind in
    words. Libraries put a number and the name of a class before either, or instead."""
    kind, text = type(error).__name__, " ".join(str(_whole(error)).split())
    words = _WORD.sub(" ", kind.removesuffix("Error")).lower() or kind
    said = _NUMBER.sub("", text).removeprefix(kind).removeprefix(":").strip()
    if not said:
        return "no answer in time" if isinstance(error, TimeoutError) else words
    said = _SERVER.sub(r"\1:\2", said)
    return f"{words}: {said}" if text.startswith("[Error ") else said  # of a broker's error it is what it is about


def _whole(error: BaseException) -> object:
    """Without the name of a file, which the sentence has already; of an address that cannot be opened, why."""
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or error

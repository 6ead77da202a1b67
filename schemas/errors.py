"""Errors of reading what others wrote, grouped by what the reader does with them."""


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

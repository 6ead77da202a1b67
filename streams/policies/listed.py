"""The policy `list`: a file of terms that no prompt may hold, read again when it changes."""

import logging
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from admission.policy import PolicyAnswer, PolicyText
from admission.terms import Terms, TermsRefused, parse_terms
from schemas.errors import CatalogueError, told
from schemas.settings import read_settings

_LOG = logging.getLogger(__name__)

_Seen: TypeAlias = tuple[int, int, int]


class ListSettings(BaseSettings):
    """Of the policy `list` alone: a policy reads its own settings."""

    model_config = SettingsConfigDict(env_prefix="KILN_ADMISSION_POLICY_LIST_", frozen=True)

    file: Path | None = Field(
        default=None, description="Terms, one a line, read again when it changes; unset: every prompt passes."
    )
    negative: bool = Field(
        default=True, description="Judge negative prompts, too: what is left out of a picture changes it as well."
    )
    terms_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=100_000, description="Terms of the file; each word of one takes some 300 bytes of memory."
    )
    words_max: Annotated[int, Field(ge=1, le=64)] = Field(default=8, description="Words of one term.")
    bytes_max: Annotated[int, Field(ge=1, le=1 << 30)] = Field(default=16 << 20, description="Of the file.")


class ListedPolicy:
    """What the file holds. `refresh` may run in another thread than `judge`: it changes `terms` at once, or not."""

    problem: str | None = None

    def __init__(self, file: Path, settings: ListSettings) -> None:
        """Raises CatalogueError where the file cannot be used."""
        self._file = file
        self._settings = settings
        self._seen = _seen(file)
        self._settling: _Seen | None = None
        self._refused: str | None = None  # what is wrong with the file as it was `_settling`
        self.terms = _read(file, settings)

    def judge(self, text: PolicyText) -> PolicyAnswer | None:
        terms = self.terms
        if not terms.number:
            return None
        category = terms.find(text.prompt_normalised)
        if category is not None:
            return PolicyAnswer(category)
        if self._settings.negative and text.negative_prompt:
            category = terms.find(text.negative_prompt_normalised)
        return None if category is None else PolicyAnswer(category, "negative_prompt")

    def refresh(self) -> None:
        """Read the file again where it is another one than before, and was that at the last look, too: one that is
        being written holds half of its terms. Blocks. Raises CatalogueError where it cannot be used, and the list stays
        as it was.
        """
        seen = _seen(self._file)
        if seen == self._seen:
            self._settling = self._refused = None
        elif seen != self._settling:
            self._settling, self._refused = seen, None
        elif self._refused is not None:
            raise CatalogueError(self._refused)  # a new one: one that is raised again grows by each place
        else:
            self._take(seen)

    def _take(self, seen: _Seen) -> None:
        try:
            terms = _read(self._file, self._settings)
        except CatalogueError as error:
            self._refused = str(error)
            raise
        self.terms, self._seen, self._settling = terms, seen, None
        level = logging.INFO if terms.number else logging.WARNING
        _LOG.log(level, "the list of terms %s has changed: %d in it now", self._file, terms.number)


def load() -> ListedPolicy | None:
    """None where there is no file: nothing is to be judged. Raises CatalogueError where it cannot be used."""
    settings = read_settings(ListSettings)
    return None if settings.file is None else ListedPolicy(settings.file, settings)


def _seen(file: Path) -> _Seen:
    """What changes when the file does."""
    try:
        stat = file.stat()
    except OSError as error:
        raise CatalogueError(f"the list of terms {file} cannot be used: {told(error)}") from error
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _read(file: Path, settings: ListSettings) -> Terms:
    try:
        size = file.stat().st_size
        if size > settings.bytes_max:
            raise CatalogueError(
                f"{file} has {size} bytes, and {settings.bytes_max} are read; shorten the list, or raise "
                "KILN_ADMISSION_POLICY_LIST_BYTES_MAX"
            )
        text = file.read_text(encoding="utf-8-sig")
        return parse_terms(text, terms_max=settings.terms_max, words_max=settings.words_max)
    except (OSError, UnicodeError, TermsRefused) as error:
        raise CatalogueError(f"the list of terms {file} cannot be used: {told(error)}") from error

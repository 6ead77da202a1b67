"""The policy `list`: a file of terms that no prompt may hold."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from admission.policy import PolicyAnswer, PolicyText
from admission.terms import Terms, TermsRefused, parse_terms
from schemas.errors import CatalogueError
from schemas.settings import read_settings


class ListSettings(BaseSettings):
    """Of the policy `list` alone: a policy reads its own settings."""

    model_config = SettingsConfigDict(env_prefix="KILN_ADMISSION_POLICY_LIST_", frozen=True)

    file: Path | None = Field(
        default=None, description="Terms, one a line, read once at the start; unset: every prompt passes."
    )
    negative: bool = Field(
        default=True, description="Judge negative prompts, too: what is left out of a picture changes it as well."
    )
    terms_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=100_000, description="Terms of the file; each word of one takes some 300 bytes of memory."
    )
    words_max: Annotated[int, Field(ge=1, le=64)] = Field(default=8, description="Words of one term.")
    bytes_max: Annotated[int, Field(ge=1, le=1 << 30)] = Field(default=16 << 20, description="Of the file.")


@dataclass(frozen=True, slots=True)
class ListedPolicy:
    terms: Terms
    negative: bool = True
    problem: str | None = None

    def judge(self, text: PolicyText) -> PolicyAnswer | None:
        category = self.terms.find(text.prompt_normalised)
        if category is not None:
            return PolicyAnswer(category)
        if self.negative and text.negative_prompt:
            category = self.terms.find(text.negative_prompt_normalised)
        return None if category is None else PolicyAnswer(category, "negative_prompt")


def load() -> ListedPolicy | None:
    """None where there is no term: nothing is to be judged. Raises CatalogueError where the file cannot be used."""
    settings = read_settings(ListSettings)
    if settings.file is None:
        return None
    try:
        size = settings.file.stat().st_size
        if size > settings.bytes_max:
            raise CatalogueError(
                f"{settings.file} has {size} bytes, and {settings.bytes_max} are read; shorten the list, or raise "
                "KILN_ADMISSION_POLICY_LIST_BYTES_MAX"
            )
        text = settings.file.read_text(encoding="utf-8-sig")
        terms = parse_terms(text, terms_max=settings.terms_max, words_max=settings.words_max)
    except (OSError, UnicodeError, TermsRefused) as error:
        raise CatalogueError(f"the list of terms {settings.file} cannot be used: {error}") from error
    return ListedPolicy(terms, settings.negative) if terms.number else None

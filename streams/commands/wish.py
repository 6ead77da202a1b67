"""A request as the command line says it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from schemas.errors import CommandError
from schemas.request import GenerationRequest, first_problem


def from_now(seconds: float) -> str:
    """The moment so many seconds ahead, as requests say it."""
    try:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    except (OverflowError, ValueError) as error:
        raise CommandError(f"a deadline {seconds:g} s from now has no date; send one that has, or none", 2) from error


def checked(body: dict[str, Any], where: str) -> GenerationRequest:
    """Raises CommandError with the first thing wrong in it."""
    try:
        return GenerationRequest.model_validate(body)
    except ValidationError as error:
        raise CommandError(f"{where}: {first_problem(error)[1]}") from error

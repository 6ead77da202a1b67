"""Settings from the environment: a value that is refused is one sentence, and never shown, for it may be a secret."""

from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from schemas.errors import CommandError

S = TypeVar("S", bound=BaseSettings)


def read_settings(kind: type[S], /, **given: Any) -> S:
    """What is given goes over the environment. Raises CommandError, which names the variable."""
    try:
        return kind(**given)
    except ValidationError as error:
        raise CommandError(setting_refused(error, kind)) from error
    except SettingsError as error:
        raise CommandError(f"{_prefix(kind)}: {error}; write it as JSON") from error


def setting_refused(error: ValidationError, kind: type[BaseSettings]) -> str:
    """The first thing wrong, by the name of its environment variable."""
    detail = error.errors(include_url=False, include_input=False)[0]
    said = detail["msg"].removeprefix("Value error, ")
    if not detail["loc"]:
        return f"{_prefix(kind)}: {said}"
    field, *within = map(str, detail["loc"])
    told = kind.model_fields[field].description if field in kind.model_fields else None
    if detail["type"] == "string_pattern_mismatch" and told:
        said += f" ({told.rstrip('.')})"
    return ": ".join([f"{_prefix(kind)}{field.upper()}", *within, said])


def _prefix(kind: type[BaseSettings]) -> str:
    return kind.model_config.get("env_prefix", "")

"""How a configuration is named at the command line: NAME, NAME@VERSION or NAME:CHANNEL."""

from pydantic import ValidationError

from schemas.catalogue import ConfigCatalogue, ConfigProblem
from schemas.config import GenerationConfig
from schemas.effects import spelt
from schemas.errors import CommandError
from schemas.request import ConfigRef, first_problem


def config_ref(text: str) -> ConfigRef:
    """Raises CommandError with exit status 2 where `text` names none."""
    name, at, version = text.partition("@")
    if at and not version.isdecimal():
        raise CommandError(f"{text!r} names no version; write NAME@NUMBER", 2)
    channel: str | None = None
    if not at:
        name, _, channel = text.partition(":")
    try:
        return ConfigRef(name=name, version=int(version) if at else None, channel=channel or None)
    except ValidationError as error:
        raise CommandError(f"{text!r}: {first_problem(error)[1]}", 2) from error


def one_config(catalogue: ConfigCatalogue, text: str) -> GenerationConfig:
    """What `text` names, a retired version too. Raises CommandError where it is none, or several."""
    ref = config_ref(text)
    found = catalogue.choices(ref)
    if isinstance(found, ConfigProblem):
        gone = catalogue.labelled(text)
        if gone is None:
            raise CommandError(found.message)
        return gone
    if len(found) > 1:
        labels = " or ".join(choice.config.label for choice in found)
        raise CommandError(f"{spelt(ref)} is several; name {labels}")
    return found[0].config

"""What becomes of requests when configurations change: each reference that gets something else than before. Pure."""

from collections.abc import Iterator

from schemas.catalogue import ConfigCatalogue, ConfigProblem
from schemas.request import ConfigRef

NOTHING = "nothing"


def effects(before: ConfigCatalogue, after: ConfigCatalogue, name: str) -> list[str]:
    """A line for each channel and version of the config `name` that leads elsewhere afterwards; empty: none does."""
    found = []
    for ref in _references(before, after, name):
        was, will = outcome(before, ref), outcome(after, ref)
        if was != will:
            found.append(f"{spelt(ref)} gets {will}, instead of {was}")
    return found


def outcomes(catalogue: ConfigCatalogue, name: str) -> list[str]:
    """A line for each channel and version of the config `name`: what it gets."""
    return [f"{spelt(ref)} gets {outcome(catalogue, ref)}" for ref in _references(catalogue, catalogue, name)]


def outcome(catalogue: ConfigCatalogue, ref: ConfigRef) -> str:
    """What a request with `ref` gets: a label, labels with their shares, or the code it is refused with."""
    choices = catalogue.choices(ref)
    if isinstance(choices, ConfigProblem):
        return f"{NOTHING} ({choices.code})"
    if len(choices) == 1:
        return choices[0].config.label
    total = sum(choice.weight for choice in choices)
    return ", ".join(f"{choice.config.label} {100 * choice.weight / total:.3g} %" for choice in choices)


def spelt(ref: ConfigRef) -> str:
    """As a command takes it."""
    if ref.version is not None:
        return f"{ref.name}@{ref.version}"
    return ref.name if ref.channel is None else f"{ref.name}:{ref.channel}"


def _references(before: ConfigCatalogue, after: ConfigCatalogue, name: str) -> Iterator[ConfigRef]:
    files = [file for catalogue in (before, after) if (file := catalogue.files.get(name)) is not None]
    for channel in sorted({channel for file in files for channel in file.channels}):
        yield ConfigRef(name=name, channel=channel)
    for version in sorted({version for file in files for version in (*file.versions, *file.compatible)}):
        yield ConfigRef(name=name, version=version)

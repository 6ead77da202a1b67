"""How two configurations differ: field by field, and whether their pictures can be the same bytes. Pure."""

from dataclasses import dataclass
from typing import Any

from schemas.config import PIXEL_FIELDS, PIXEL_OPTIONS, GenerationConfig

_NAMES = ("name", "version")


@dataclass(frozen=True, slots=True)
class Difference:
    """`field` is a path such as model.digest; None is a value that is not there."""

    field: str
    one: Any
    other: Any
    pixels: bool


def differences(one: GenerationConfig, other: GenerationConfig) -> list[Difference]:
    """In the order of the fields, but for name and version. `pixels`: the field belongs to the hash."""
    mine, theirs = (_flat(config) for config in (one, other))
    return [
        Difference(field, mine.get(field), theirs.get(field), field.split(".")[0] in (*PIXEL_FIELDS, *PIXEL_OPTIONS))
        for field in dict.fromkeys((*mine, *theirs))
        if mine.get(field) != theirs.get(field)
    ]


def _flat(config: GenerationConfig) -> dict[str, Any]:
    # Not model_dump: it leaves out options that have their default, and a difference is told with both values.
    values = {name: getattr(config, name) for name in GenerationConfig.model_fields if name not in _NAMES}
    return dict(_leaves("", values))


def _leaves(path: str, value: Any) -> list[tuple[str, Any]]:
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, tuple):
        value = [each.model_dump(mode="json") for each in value]
    if not isinstance(value, dict):
        return [(path, value)]
    return [leaf for name, each in value.items() for leaf in _leaves(f"{path}.{name}".lstrip("."), each)]

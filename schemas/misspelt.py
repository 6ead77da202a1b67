"""A field that no declaration has, or that has a value of another form: what was probably meant."""

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel


def no_such_field(model: type[BaseModel], at: Sequence[str | int]) -> str:
    """What to say of the field at the end of `at`, a path into `model` as pydantic gives it."""
    known = sorted({name for kind in _models(model, at[:-1]) for name in kind.model_fields})
    near = difflib.get_close_matches(str(at[-1]), known, 1)
    if near:
        return f"there is no such field; did you mean {near[0]}?"
    return f"there is no such field; there are: {', '.join(known)}" if known else "there is no such field; take it out"


def wanted_form(model: type[BaseModel], at: Sequence[str | int]) -> str | None:
    """What the field at the end of `at` is, in its own words; None where it says nothing of itself."""
    fields = (kind.model_fields.get(str(at[-1])) for kind in _models(model, at[:-1]))
    return next((field.description.rstrip(".") for field in fields if field is not None and field.description), None)


def _models(annotation: Any, path: Sequence[str | int]) -> Iterator[type[BaseModel]]:
    """Every model that may stand at the end of `path`."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _models(parts[0], path)
    elif origin in (Union, types.UnionType):
        for part in parts:
            yield from _models(part, path)
    elif isinstance(origin, type) and path:
        kind = parts[-1] if issubclass(origin, Mapping) else parts[0]
        yield from _models(kind, path[1:])
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not path:
            yield annotation
        elif (field := annotation.model_fields.get(str(path[0]))) is not None:
            yield from _models(field.annotation, path[1:])

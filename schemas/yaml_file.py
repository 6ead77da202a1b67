"""Reading a declaration from YAML: one model a file, and one sentence where it is wrong."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from schemas.errors import CatalogueError
from schemas.misspelt import no_such_field, wanted_form

_FORMS = ("string_pattern_mismatch", "string_type")  # whose sentence tells no person what to write
_Model = TypeVar("_Model", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """Refuses a key that a mapping has twice: YAML's own loader takes the last without a word."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key in (each for each, _ in node.value if isinstance(each, yaml.ScalarNode)):
            if (key.tag, key.value) in seen:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: {key.value!r} stands here a second time; take one out")
            seen.add((key.tag, key.value))
        return node


def read_yaml(model: type[_Model], path: Path) -> _Model:
    """The file as a `model`. Raises CatalogueError with the file's name and the first thing wrong in it."""
    try:
        return model.model_validate(yaml.load(path.read_text(encoding="utf-8"), _Loader))  # noqa: S506 - a safe one
    except ValidationError as error:
        raise CatalogueError(f"{path.name}: {_first_fault(model, error)}") from error
    except RecursionError as error:
        raise CatalogueError(f"{path.name} is nested too deeply; no declaration is") from error
    except FileNotFoundError as error:
        raise CatalogueError(
            f"{path} does not exist; create it, or set KILN_CONFIGS, KILN_POOLS and KILN_TENANTS"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError) as error:  # the second for a date that is none, or a number without end
        raise CatalogueError(f"{path.name} is no YAML: {error}") from error


def _first_fault(model: type[BaseModel], error: ValidationError) -> str:
    faults = error.errors(include_url=False)
    # Where a number is refused that might have been a boolean, the number's fault is the one to hear of.
    detail = next((fault for fault in faults if fault["type"] != "bool_type"), faults[0])
    if detail["type"] == "missing":  # most often since it stands there under another name
        beside = (
            each for each in faults if each["type"] == "extra_forbidden" and each["loc"][:-1] == detail["loc"][:-1]
        )
        detail = next(beside, detail)
    said = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        said = no_such_field(model, detail["loc"])
    elif detail["type"] in _FORMS and (form := wanted_form(model, detail["loc"])):
        said += f" ({form})"
    at = detail["loc"][:-1] if detail["loc"][-1:] == ("[key]",) else detail["loc"]  # the key is its own place
    where = ".".join(map(str, at))
    return f"{where}: {said}" if where else said

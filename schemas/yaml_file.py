"""Reading a declaration from YAML: one model a file, and one sentence where it is wrong."""

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from schemas.errors import CatalogueError
from schemas.misspelt import no_such_field, wanted_form

_FORMS = ("string_pattern_mismatch", "string_type")  # whose sentence tells no person what to write
_Model = TypeVar("_Model", bound=BaseModel)


def read_yaml(model: type[_Model], path: Path) -> _Model:
    """The file as a `model`. Raises CatalogueError with the file's name and the first thing wrong in it."""
    try:
        return model.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # Where a number is refused that might have been a boolean, the number's fault is the one to hear of.
        detail = next((fault for fault in faults if fault["type"] != "bool_type"), faults[0])
        where = ".".join(str(part) for part in detail["loc"])
        said = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            said = no_such_field(model, detail["loc"])
        elif detail["type"] in _FORMS and (form := wanted_form(model, detail["loc"])):
            said += f" ({form})"
        raise CatalogueError(f"{path.name}: {where}: {said}") from error
    except yaml.YAMLError as error:
        raise CatalogueError(f"{path.name} is no YAML: {error}") from error
    except FileNotFoundError as error:
        raise CatalogueError(
            f"{path} does not exist; create it, or set KILN_CONFIGS, KILN_POOLS and KILN_TENANTS"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path} cannot be read: {error}") from error

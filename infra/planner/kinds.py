"""What a shape asks for: a CSV with a line for each kind of request. The shape says when, this says what."""

from pathlib import Path

from infra.planner.cells import Configs, Line, lines
from infra.planner.shape import Kind
from schemas.catalogue import ConfigCatalogue
from schemas.errors import CommandError

COLUMNS = ("config", "seconds", "model", "weight", "together", "tenant", "lane", "deadline")
_WEIGHT_MAX = 1e9
_DEADLINE_MAX = 366 * 86_400
_TOGETHER_MAX = 100_000


def read_kinds(path: Path, configs: ConfigCatalogue, *, deadline_seconds: float) -> list[Kind]:
    """`weight`: of all requests, beside the others; `together`: so many come at once, as somebody's list does. The rest
    is as in a trace. Raises CommandError, one sentence with the line and the cure."""
    met = Configs(configs)
    kinds = [_kind(line, met, deadline_seconds) for line in lines(path, COLUMNS, ("config",))]
    if not any(kind.weight for kind in kinds):
        raise CommandError(f"{path.name} has no line with a weight above 0; give it one line for each kind of request")
    return kinds


def _kind(line: Line, configs: Configs, deadline_seconds: float) -> Kind:
    weight = line.number("weight", 1.0, least=0.0, most=_WEIGHT_MAX)
    deadline = line.number("deadline", deadline_seconds, least=0.0, most=_DEADLINE_MAX)
    together = line.count("together", _TOGETHER_MAX)
    return Kind(line.config(configs), weight, line.lane(), deadline, line.text("tenant", "tenant"), together)

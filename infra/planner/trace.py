"""A trace: a CSV of what was asked for and when."""

import csv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from infra.planner.cells import Configs, Line, lines
from infra.planner.request import Request
from schemas.catalogue import ConfigCatalogue
from schemas.errors import CommandError

COLUMNS = ("time", "config", "seconds", "model", "images", "tenant", "lane", "deadline")
_NEEDED = ("time", "config")
_SECONDS_MAX = 366 * 86_400  # a replay looks at its pool every minute, so a longer one would not end
_TIME_MAX = 1e11  # milliseconds of these years are above it
_IMAGES_MAX = 1024  # as of a request


def read_trace(path: Path, configs: ConfigCatalogue, *, deadline_seconds: float) -> list[Request]:
    """Requests in the order of arrival, the first at 0.

    Columns: `time` (seconds) and `config` (a name or name@version of the deployment; with `seconds`, of the GPU for one
    picture, any name), and where they are there `model` (else each such config is a model of its own), `images`,
    `tenant`, `lane` and `deadline` (seconds after its time; `deadline_seconds` where there is none). Raises
    CommandError, one sentence with the line and the cure.
    """
    met = Configs(configs)
    read = [_request(line, met, deadline_seconds) for line in lines(path, COLUMNS, _NEEDED)]
    return _in_order(read, path.name)


def _request(line: Line, configs: Configs, deadline_seconds: float) -> Request:
    config = line.config(configs)
    arrival = line.number("time", None, least=-_TIME_MAX, most=_TIME_MAX)
    deadline = arrival + line.number("deadline", deadline_seconds, least=0.0, most=_SECONDS_MAX)
    images = line.count("images", _IMAGES_MAX)
    return Request(0, arrival, config, line.text("tenant", "tenant"), line.lane(), deadline, images)


def _in_order(requests: Iterable[Request], name: str) -> list[Request]:
    ordered = sorted(requests, key=lambda request: request.arrival)
    if not ordered:
        raise CommandError(f"{name} has no line below its header; give it one line for each request")
    first = ordered[0].arrival
    if ordered[-1].arrival - first > _SECONDS_MAX:
        raise CommandError(
            f"{name} spans {ordered[-1].arrival - first:g} seconds, more than a year; write its times in seconds, and "
            "plan with a part of it"
        )
    return [
        replace(request, number=number, arrival=request.arrival - first, deadline=request.deadline - first)
        for number, request in enumerate(ordered)
    ]


def write_trace(requests: Iterable[Request], configs: ConfigCatalogue, path: Path) -> None:
    """What read_trace() reads. Raises CommandError where the file cannot be written."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(COLUMNS)
            rows.writerows(_row(request, configs) for request in requests)
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror}); name another file") from error


def _row(request: Request, configs: ConfigCatalogue) -> tuple[object, ...]:
    config, deadline = request.config, f"{request.deadline - request.arrival:.3f}"
    named = (config.name, str(config.price.gpu_seconds), config.model.name)
    if configs.labelled(config.label) == config:
        named = (config.label, "", "")
    return f"{request.arrival:.3f}", *named, request.images, request.tenant, request.lane, deadline

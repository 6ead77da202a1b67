"""A trace: a CSV of what was asked for and when."""

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from infra.planner.request import Request
from schemas.catalogue import ConfigCatalogue, ConfigProblem
from schemas.codec import sha256_hex
from schemas.config import GenerationConfig, ModelRef, Price
from schemas.errors import CommandError
from schemas.request import LANES, ConfigRef, Lane

COLUMNS = ("time", "config", "seconds", "model", "images", "tenant", "lane", "deadline")
_NEEDED = ("time", "config")
_VRAM_BYTES = 1 << 30  # nobody looks at it here
_SECONDS_MAX = 366 * 86_400  # a replay looks at its pool every minute, so a longer one would not end
_IMAGES_MAX = 1024  # as of a request


def read_trace(path: Path, configs: ConfigCatalogue, *, deadline_seconds: float) -> list[Request]:
    """Requests in the order of arrival, the first at 0.

    Columns: `time` (seconds) and `config` (a name or name@version of the deployment; with `seconds`, of the GPU for one
    picture, any name), and where they are there `model` (else each such config is a model of its own), `images`,
    `tenant`, `lane` and `deadline` (seconds after its time; `deadline_seconds` where there is none). Raises
    CommandError, one sentence with the line and the cure.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _in_order(_rows(csv.DictReader(file, strict=True), path.name, configs, deadline_seconds), path.name)
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror}); name a CSV file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise CommandError(f"{path.name} is no CSV in UTF-8 ({error}); save it as one") from error


def _in_order(requests: Iterator[Request], name: str) -> list[Request]:
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


def _rows(
    rows: "csv.DictReader[str]", name: str, configs: ConfigCatalogue, deadline_seconds: float
) -> Iterator[Request]:
    header = rows.fieldnames or []
    if missing := [column for column in _NEEDED if column not in header]:
        known = ", ".join(COLUMNS)
        raise CommandError(f"{name} has no column {missing[0]!r}; its first line names them, of these: {known}")
    if unknown := [column for column in header if column not in COLUMNS]:
        raise CommandError(f"{name} has a column {unknown[0]!r}; known are: {', '.join(COLUMNS)}")
    if twice := [column for column in COLUMNS if header.count(column) > 1]:
        raise CommandError(f"{name} has the column {twice[0]!r} twice; take one of them out")
    made: dict[tuple[str, str, str], GenerationConfig] = {}
    for row in rows:
        line = _Line(name, rows.line_num, row)
        if None in row:
            raise CommandError(f"{name}, line {rows.line_num} has more cells than the header; take them out")
        config = line.config(configs, made)
        arrival = line.number("time", None, least=-math.inf)
        deadline = arrival + line.number("deadline", deadline_seconds, least=0.0)
        yield Request(0, arrival, config, row.get("tenant") or "tenant", line.lane(), deadline, line.images())


class _Line:
    def __init__(self, name: str, number: int, row: Mapping[str, str | None]) -> None:
        self._where = f"{name}, line {number}"
        self._row = row

    def number(self, column: str, otherwise: float | None, *, least: float) -> float:
        text = self._row.get(column)
        if not text and otherwise is not None:
            return otherwise
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= least):
            bound = "" if math.isinf(least) else f" from {least:g} on"
            raise CommandError(f"{self._where}: {column} is {text or ''!r}; write a number{bound}")
        return value

    def images(self) -> int:
        images = self.number("images", 1.0, least=1.0)
        if images > _IMAGES_MAX or not images.is_integer():
            raise CommandError(f"{self._where}: images is {images:g}; write a whole number up to {_IMAGES_MAX}")
        return int(images)

    def lane(self) -> Lane:
        text = self._row.get("lane") or "standard"
        if text not in LANES:
            raise CommandError(f"{self._where}: lane is {text!r}; write one of: {', '.join(LANES)}")
        return text

    def config(self, configs: ConfigCatalogue, made: dict[tuple[str, str, str], GenerationConfig]) -> GenerationConfig:
        name, seconds, model = (self._row.get(column) or "" for column in ("config", "seconds", "model"))
        key = name, seconds, model
        if key not in made:
            made[key] = self._free(name, model or name) if seconds else self._declared(name, configs)
        return made[key]

    def _declared(self, name: str, configs: ConfigCatalogue) -> GenerationConfig:
        found = configs.labelled(name) if "@" in name else None
        if found is not None:
            return found
        try:
            resolved = configs.resolve(ConfigRef(name=name), b"")
        except ValidationError as error:
            raise CommandError(f"{self._where}: config is {name!r}; write letters, digits, . and -") from error
        if isinstance(resolved, ConfigProblem):
            raise CommandError(f"{self._where}: {resolved.message}; or give its seconds in a column of that name")
        return resolved

    def _free(self, name: str, model: str) -> GenerationConfig:
        seconds = self.number("seconds", None, least=0.001)
        try:
            return free_config(name, model, seconds)
        except ValidationError as error:
            raise CommandError(
                f"{self._where}: config {name!r} of model {model!r} at {seconds:g} seconds; write names of small "
                "letters, digits, . and -, and no more than 86400 seconds"
            ) from error


def free_config(name: str, model: str, gpu_seconds: float) -> GenerationConfig:
    """One that no deployment declares: what it costs is all that is known. Raises ValidationError."""
    look = int(sha256_hex(name.encode())[:8], 16) / (1 << 32)  # its hash is of what changes pixels, and no name does
    return GenerationConfig(
        name=name, version=1, family="sd15", model=ModelRef(name=model, digest=f"sha256:{sha256_hex(model.encode())}"),
        steps=1, guidance_scale=50 * look, bucket=1, width=512, height=512, batching="whole",
        price=Price(gpu_seconds=gpu_seconds, vram_bytes=_VRAM_BYTES),
    )  # fmt: skip

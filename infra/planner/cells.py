"""CSV files for the planner, line by line. What is wrong in one is a sentence with the line and the cure."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from schemas.catalogue import ConfigCatalogue, ConfigProblem
from schemas.codec import sha256_hex
from schemas.config import GenerationConfig, ModelRef, Price
from schemas.errors import CommandError
from schemas.request import LANES, ConfigRef, Lane

_VRAM_BYTES = 1 << 30  # nobody looks at it here
_SECONDS = ("time", "seconds", "deadline")


class Configs:
    """Configurations by what a line says of one: a name of the deployment, or with seconds any name."""

    def __init__(self, declared: ConfigCatalogue) -> None:
        self.declared = declared
        self.met: dict[tuple[str, str, str], GenerationConfig] = {}


class Line:
    def __init__(self, file: str, number: int, row: Mapping[str, str | None]) -> None:
        self._where = f"{file}, line {number}"
        self._row = row

    def text(self, column: str, otherwise: str) -> str:
        return self._row.get(column) or otherwise

    def number(self, column: str, otherwise: float | None, *, least: float, most: float = math.inf) -> float:
        """`otherwise`: of an empty cell; None: it must not be empty."""
        text = self._row.get(column)
        if not text and otherwise is not None:
            return otherwise
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and least <= value <= most):
            unit = " of seconds" if column in _SECONDS else ""
            bound = f" from {least:g} on" if least >= 0 else ""
            if most < value < math.inf:
                bound = f", {most:.12g} at most"
            raise CommandError(f"{self._where}: {column} is {text or ''!r}; write a number{unit}{bound}")
        return value

    def count(self, column: str, most: int) -> int:
        count = self.number(column, 1.0, least=1.0)
        if count > most or not count.is_integer():
            raise CommandError(f"{self._where}: {column} is {count:g}; write a whole number up to {most}")
        return int(count)

    def lane(self) -> Lane:
        text = self.text("lane", "standard")
        if text not in LANES:
            raise CommandError(f"{self._where}: lane is {text!r}; write one of: {', '.join(LANES)}")
        return text

    def config(self, configs: Configs) -> GenerationConfig:
        name, seconds, model = (self.text(column, "") for column in ("config", "seconds", "model"))
        key = name, seconds, model
        if key not in configs.met:
            free = self._free(name, model or name) if seconds else self._declared(name, configs.declared)
            configs.met[key] = free
        return configs.met[key]

    def _declared(self, name: str, configs: ConfigCatalogue) -> GenerationConfig:
        found = configs.labelled(name) if "@" in name else None
        if found is not None:
            return found
        bare, _, version = name.partition("@")
        try:
            wanted = ConfigRef(name=bare, version=int(version)) if version.isdecimal() else ConfigRef(name=name)
            resolved = configs.resolve(wanted, b"")
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


def lines(path: Path, columns: Sequence[str], needed: Sequence[str]) -> Iterator[Line]:
    """Those below the header, empty ones left out. Raises CommandError."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, strict=True, skipinitialspace=True)
            _check_header(rows.fieldnames or (), path.name, columns, needed)
            for row in rows:
                if None in row:
                    raise CommandError(
                        f"{path.name}, line {rows.line_num} has more cells than the header; take them out"
                    )
                yield Line(path.name, rows.line_num, row)
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror}); name a CSV file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise CommandError(f"{path.name} is no CSV in UTF-8 ({error}); save it as one") from error


def _check_header(header: Sequence[str], name: str, columns: Sequence[str], needed: Sequence[str]) -> None:
    known = ", ".join(columns)
    if missing := [column for column in needed if column not in header]:
        raise CommandError(
            f"{name} has no column {missing[0]!r}; its first line names them, commas between them, of these: {known}"
        )
    if unknown := [column for column in header if column not in columns]:
        raise CommandError(f"{name} has a column {unknown[0]!r}; take it out, for known are: {known}")
    if twice := [column for column in columns if header.count(column) > 1]:
        raise CommandError(f"{name} has the column {twice[0]!r} twice; take one of them out")


def free_config(name: str, model: str, gpu_seconds: float) -> GenerationConfig:
    """One that no deployment declares: what it costs is all that is known. Raises ValidationError."""
    look = int(sha256_hex(name.encode())[:8], 16) / (1 << 32)  # its hash is of what changes pixels, and no name does
    return GenerationConfig(
        name=name, version=1, family="sd15", model=ModelRef(name=model, digest=f"sha256:{sha256_hex(model.encode())}"),
        steps=1, guidance_scale=50 * look, bucket=1, width=512, height=512, batching="whole",
        price=Price(gpu_seconds=gpu_seconds, vram_bytes=_VRAM_BYTES),
    )  # fmt: skip

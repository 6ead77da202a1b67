"""The configurations of a deployment: read from YAML, looked up by reference."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.canary import drawn
from schemas.config import GenerationConfig
from schemas.config_file import ConfigFile
from schemas.errors import CatalogueError
from schemas.request import ConfigRef
from schemas.yaml_file import read_yaml

DEFAULT_CHANNEL = "stable"
_NAMED_MAX = 20


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """Why a reference names no usable configuration: a rejection code and the sentence of it."""

    code: Literal["unknown_config", "config_version_mismatch", "config_retired"]
    message: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What a reference may come to: the version that it leads to, and the configuration that is taken for it."""

    version: int
    weight: float
    config: GenerationConfig


class ConfigCatalogue:
    """Every configuration by name. Immutable; a change of the files is a new catalogue."""

    def __init__(self, files: Iterable[ConfigFile]) -> None:
        self.files: Mapping[str, ConfigFile] = {file.name: file for file in files}
        self._known = _some(self.files)  # once: a flood of unknown names must not sort thousands for each
        # Of references that lead somewhere, so no larger than the files; every request looks one up.
        self._found: dict[tuple[str, int | None, str | None], Sequence[Choice]] = {}

    def resolve(self, ref: ConfigRef, name: bytes) -> GenerationConfig | ConfigProblem:
        """The configuration that the request called `name` gets for `ref`, or why there is none. Of a channel with
        several versions a name always gets the same one."""
        key = (ref.name, ref.version, ref.channel)
        choices = self._found.get(key)
        if choices is None:
            found = self.choices(ref)
            if isinstance(found, ConfigProblem):
                return found
            choices = self._found[key] = found
        if len(choices) == 1:
            return choices[0].config
        return choices[drawn([(f"{ref.name}@{each.version}", each.weight) for each in choices], name)].config

    def choices(self, ref: ConfigRef) -> Sequence[Choice] | ConfigProblem:
        """All that `ref` may come to, at least one; or why there is none. A version that is retired, with no other
        declared compatible, leaves its share of a channel to the rest."""
        file = self.files.get(ref.name)
        if file is None:
            return ConfigProblem("unknown_config", f"there is no config {ref.name!r}; known are: {self._known}")
        weights = _weights(file, ref)
        if weights is None:
            known = ", ".join(sorted(file.channels))
            return ConfigProblem(
                "unknown_config",
                f"config {ref.name!r} has no channel {ref.channel or DEFAULT_CHANNEL!r}; it has: {known}",
            )
        found = [
            Choice(version, weight, config)
            for version, weight in weights.items()
            if weight > 0 and (config := file.in_use(version)) is not None
        ]
        return found or _gone(file, next(version for version, weight in weights.items() if weight > 0))

    def labelled(self, label: str) -> GenerationConfig | None:
        """The configuration called `name@version`."""
        name, _, version = label.partition("@")
        file = self.files.get(name)
        return file.versions.get(int(version)) if file is not None and version.isdecimal() else None

    def sibling(self, config: GenerationConfig) -> GenerationConfig | None:
        """The cheaper configuration that may stand in for `config` under overload, where one is declared and in use."""
        file = self.files.get(config.name)
        label = file.degrades_to.get(config.version) if file is not None else None
        found = self.labelled(label) if label is not None else None
        if found is None or found.retired or found.price.gpu_seconds >= config.price.gpu_seconds:
            return None
        return found

    def hashes(self) -> dict[str, str]:
        """`name@version` -> config hash, what the lock records."""
        return {config.label: config.config_hash for file in self.files.values() for config in file.versions.values()}


def _some(names: Collection[str]) -> str:
    first = ", ".join(sorted(names)[:_NAMED_MAX]) or "none"
    return first if len(names) <= _NAMED_MAX else f"{first} and {len(names) - _NAMED_MAX} more"


def _weights(file: ConfigFile, ref: ConfigRef) -> Mapping[int, float] | None:
    if ref.version is not None:
        return {ref.version: 1.0}
    return file.channels.get(ref.channel or DEFAULT_CHANNEL)


def _gone(file: ConfigFile, version: int) -> ConfigProblem:
    if version not in file.versions:
        known = ", ".join(str(each) for each in sorted(file.versions))
        return ConfigProblem(
            "config_version_mismatch", f"config {file.name!r} has no version {version}; it has: {known}"
        )
    in_use = ", ".join(each.label for each in file.versions.values() if not each.retired)
    label = file.versions[version].label
    return ConfigProblem("config_retired", f"config {label} is retired; in use are: {in_use or 'none of its versions'}")


def load_configs(folder: Path) -> ConfigCatalogue:
    """Read every *.yaml of `folder`. Raises CatalogueError with the file's name and the first thing wrong in it."""
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise CatalogueError(f"no config files in {folder}; add one or point KILN_CONFIGS at their folder")
    files = []
    for path in paths:
        file = read_yaml(ConfigFile, path)
        if file.name != path.stem:
            raise CatalogueError(f"{path.name} holds the config {file.name!r}; name the file after its config")
        files.append(file)
    return ConfigCatalogue(files)

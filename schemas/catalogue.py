"""The configurations of a deployment: read from YAML, held against their lock, looked up by reference."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from schemas.config import ConfigFile, GenerationConfig
from schemas.errors import CatalogueError
from schemas.request import ConfigRef
from schemas.yaml_file import read_yaml

DEFAULT_CHANNEL = "stable"
LOCK_NAME = "configs.lock"
_LOCKED = TypeAdapter(dict[str, str])


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """Why a reference names no usable configuration: a rejection code and the sentence of it."""

    code: Literal["unknown_config", "config_version_mismatch", "config_retired"]
    message: str


class ConfigCatalogue:
    """Every configuration by name. Immutable; a change of the files is a new catalogue."""

    def __init__(self, files: Iterable[ConfigFile]) -> None:
        self.files = {file.name: file for file in files}

    def resolve(self, ref: ConfigRef) -> GenerationConfig | ConfigProblem:
        """The configuration that `ref` names, or why there is none."""
        file = self.files.get(ref.name)
        if file is None:
            known = ", ".join(sorted(self.files)) or "none"
            return ConfigProblem("unknown_config", f"there is no config {ref.name!r}; known are: {known}")
        version = ref.version
        if version is None:
            channel = ref.channel or DEFAULT_CHANNEL
            if channel not in file.channels:
                known = ", ".join(sorted(file.channels))
                return ConfigProblem(
                    "unknown_config", f"config {ref.name!r} has no channel {channel!r}; it has: {known}"
                )
            version = file.channels[channel]
        config = file.versions.get(version)
        if config is None:
            known = ", ".join(str(each) for each in sorted(file.versions))
            return ConfigProblem(
                "config_version_mismatch", f"config {ref.name!r} has no version {version}; it has: {known}"
            )
        if config.retired:
            in_use = ", ".join(each.label for each in file.versions.values() if not each.retired)
            return ConfigProblem(
                "config_retired", f"config {config.label} is retired; in use are: {in_use or 'none of its versions'}"
            )
        return config

    def hashes(self) -> dict[str, str]:
        """`name@version` -> config hash, what the lock records."""
        return {config.label: config.config_hash for file in self.files.values() for config in file.versions.values()}


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


def check_lock(catalogue: ConfigCatalogue, folder: Path) -> list[str]:
    """One sentence for each published version whose hash changed or that left the lock. Empty: all is well. Raises
    CatalogueError where there is a lock that cannot be read."""
    path = folder / LOCK_NAME
    try:
        locked = _LOCKED.validate_json(path.read_bytes()) if path.exists() else {}
    except (OSError, ValidationError) as error:
        raise CatalogueError(f"{path} cannot be read as a lock; bring it back from version control") from error
    now = catalogue.hashes()
    problems = [
        f"{label} is published and its pixels changed; undo the change and add a new version"
        for label, digest in locked.items()
        if label in now and now[label] != digest
    ]
    problems += [
        f"{label} is published and missing from its file; bring it back, retired" for label in locked.keys() - now
    ]
    problems += [f"{label} is not in {LOCK_NAME} yet; run kiln configs lock" for label in now.keys() - locked.keys()]
    return sorted(problems)


def write_lock(catalogue: ConfigCatalogue, folder: Path) -> list[str]:
    """Add the new versions to the lock. Changes nothing and returns the problems where a published version changed."""
    problems = [problem for problem in check_lock(catalogue, folder) if "not in" not in problem]
    if not problems:
        text = json.dumps(catalogue.hashes(), indent=2, sort_keys=True) + "\n"
        (folder / LOCK_NAME).write_text(text, encoding="utf-8")
    return problems

"""The configurations in force: those of the files, with what control says on top. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.control import Channel


@dataclass(frozen=True, slots=True)
class InForce:
    configs: ConfigCatalogue
    problems: tuple[str, ...]  # a sentence for each word of control that cannot come true as it is


def overlay(
    declared: ConfigCatalogue,
    published: Mapping[str, ConfigFile],
    channels: Mapping[tuple[str, str], Channel],
    retired: Collection[str],
) -> InForce:
    """A published file stands in for the declared one of its name; a channel of control for the one of its file.

    A channel that leads to a version that is not there is not followed: the file's stands. Retiring a version that is
    not there does nothing until it is.
    """
    files = {**declared.files, **published}
    problems = []
    for (name, channel), said in channels.items():
        file = files.get(name)
        missing = set(said.versions) - set(file.versions) if file is not None else set()
        if file is None:
            problems.append(f"control has a channel {name}:{channel}, and there is no config {name!r}")
        elif missing:
            problems.append(
                f"control's channel {name}:{channel} leads to version {min(missing)}, which {name!r} has not; publish "
                "that, or the channel stays as its file has it"
            )
        else:
            files[name] = file.model_copy(update={"channels": {**file.channels, channel: said.versions}})
    for label in retired:
        name, _, version = label.partition("@")
        file = files.get(name)
        if file is not None and (config := file.versions.get(int(version))) is not None:
            gone = config.model_copy(update={"retired": True})
            files[name] = file.model_copy(update={"versions": {**file.versions, config.version: gone}})
    return InForce(ConfigCatalogue(files.values()), tuple(problems))

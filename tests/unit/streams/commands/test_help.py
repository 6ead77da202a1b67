"""What `--help` says: something of each command and option, and no setting that is not there."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from gpu_consumer.settings import GpuConsumerSettings
from schemas.deployment import DeploymentSettings
from streams.cli import build
from streams.kafka.settings import KafkaSettings

SETTINGS: tuple[Any, ...] = (DeploymentSettings, GpuConsumerSettings, KafkaSettings)
VARIABLES = {f"{each.model_config['env_prefix']}{name}".upper() for each in SETTINGS for name in each.model_fields}


def commands(command: Any, path: str = "kiln") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{path} {name}")


def test_each_command_and_option_is_explained_by_what_is_there() -> None:
    for path, command in commands(typer.main.get_command(build())):
        texts = [command.help or ""]
        assert texts[0], f"{path} says nothing"
        for parameter in command.params:
            told = getattr(parameter, "help", None) or ""
            assert told or parameter.metavar, f"{path}: {parameter.name} says nothing"
            texts.append(told)
        for text in texts:
            named = set(re.findall(r"\b(?:KILN|KAFKA)_[A-Z_]+[A-Z]\b", text))
            assert named <= VARIABLES, f"{path} names {named - VARIABLES}"

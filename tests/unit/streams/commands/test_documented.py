"""The README lists what `kiln` can do, all of it."""

import re
from pathlib import Path

import typer

from streams.cli import build

README = Path(__file__).parents[4] / "README.md"


def listed() -> set[str]:
    """Commands of the table. A word without `kiln` is another one of the same group."""
    section = README.read_text(encoding="utf-8").partition("## Commands")[2].partition("\n## ")[0]
    found: set[str] = set()
    for row in re.findall(r"^\| (`kiln .*?) \|", section, re.MULTILINE):
        group = ""
        for text in re.findall(r"`(.*?)`", row):
            name = text.removeprefix("kiln ")
            if name != text:
                group = name.rpartition(" ")[0]
                found.add(name)
            else:
                found.add(f"{group} {name}".strip())
    return found


def commands(app: typer.Typer, group: str = "") -> set[str]:
    found = {f"{group}{each.name or getattr(each.callback, '__name__', '')}" for each in app.registered_commands}
    for each in app.registered_groups:
        assert each.typer_instance is not None
        found |= commands(each.typer_instance, f"{group}{each.name} ")
    return found


def test_the_readme_lists_every_command_and_no_other() -> None:
    assert listed() == commands(build())

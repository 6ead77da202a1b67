"""The README lists what `kiln` can do, all of it; and what any page or sentence says to type can be typed."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from streams.cli import build

ROOT = Path(__file__).parents[4]
README = ROOT / "README.md"
_USAGE: Any = typer.BadParameter.__mro__[1]  # typer brings a click of its own, or takes the one that is there
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [
    each
    for name in ("schemas", "admission", "streams", "gpu_consumer", "infra")
    for each in (ROOT / name).rglob("*.py")
]


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


@cache
def kiln() -> Any:
    return typer.main.get_command(build())


def unknown(text: str) -> str | None:
    """What of `text`, which follows the word kiln, the command line does not know; None: it knows all. Values are not
    looked at, since most are names of what is meant; [brackets] hold what may be left out."""
    command_alone = re.split(r"\s(?:[>&;]|2>|&&)(?:\s|$)", re.sub(r"[\[\]…]|\.\.\.", " ", text))[0]
    typed, *others = re.split(r"\s+\|(?:\s+|$)", command_alone.strip())
    group, command, words = kiln(), kiln(), shlex.split(typed, comments=True)
    context = typer.Context(command)
    while words and command is not None and hasattr(command, "commands"):
        group, command, name, words = command, command.get_command(context, words[0]), words[0], words[1:]
        if command is None:
            return f"{name} is no command"
    try:
        command.make_parser(typer.Context(command)).parse_args(words)
    except _USAGE as error:
        return str(error.format_message())
    if not all(re.fullmatch(r"[a-z-]+", other) for other in others):
        return None  # it is piped into something
    # Of the same group, as in: kiln cancel | pause
    return next((f"{each} is no command" for each in others if group.get_command(context, each) is None), None)


def typed(page: str) -> Iterator[str]:
    """What follows `kiln` in the code of a page: in its spans, and in lines of its blocks."""
    fences = re.findall(r"^ *```(\w*)\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL)
    blocks = (block for language, block in fences if language in ("", "sh"))
    prose = re.sub(r"^ *```.*?^ *```", "", page, flags=re.MULTILINE | re.DOTALL)
    spans = (re.sub(r"\s+", " ", span) for span in re.findall(r"`([^`]+)`", prose))
    indented = re.findall(r"^ {4,}(?=kiln )(.*)", prose, re.MULTILINE)
    lines = (line for block in (*blocks, *indented) for line in block.replace("\\\n", " ").splitlines())
    for code in (*spans, *lines):
        found = re.match(r"(?:[A-Z_]+=\S+ |.*?[|;&(] *|.* -- |time )?kiln (?=[a-z-])(.*)", code.strip())
        if found is not None:
            yield found[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_says_to_type_can_be_typed(page: Path) -> None:
    wrong = {text: problem for text in typed(page.read_text(encoding="utf-8")) if (problem := unknown(text))}
    assert not wrong


def test_what_a_sentence_says_to_type_can_be_typed() -> None:
    said = {
        text.replace("{", "").replace("}", ""): source
        for source in SOURCES
        for text in re.findall(r"`kiln ([a-z][^`\n\"]*)`", source.read_text(encoding="utf-8"))
    }
    assert len(said) > 30
    assert {text: (problem, source.name) for text, source in said.items() if (problem := unknown(text))} == {}


@pytest.mark.parametrize(
    "text",
    ["weather", "configs weather", "lag --weather", "cost --since", "cancel | weather", "pause tenant me --weather"],
)
def test_what_cannot_be_typed_is_seen(text: str) -> None:
    assert unknown(text)

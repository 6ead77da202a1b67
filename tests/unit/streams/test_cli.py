"""Commands register themselves, and none of them takes the others down."""

import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points

import pytest
import typer

from streams import cli
from streams.cli import GROUP, main

fine = typer.Typer()


@fine.command()
def works() -> None:
    typer.echo("it works")


@fine.command()
def other() -> None: ...


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch, **entries: str) -> int:
    found = EntryPoints(EntryPoint(name.replace("_", "."), value, GROUP) for name, value in entries.items())
    monkeypatch.setattr(cli, "entry_points", lambda group: found.select(group=group))
    monkeypatch.setattr(sys, "argv", ["kiln", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.mark.parametrize("value", ["streams.no_such_module:app", "streams.cli:no_such_name"])
def test_a_command_that_cannot_be_loaded_takes_no_other_with_it(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {"a": value, "a_below": f"{__name__}:works", "fine": f"{__name__}:fine"}
    assert run("fine", "works", monkeypatch=monkeypatch, **entries) == 0
    assert capsys.readouterr().out == "it works\n"
    for arguments in (("a",), ("a", "below", "--help"), ("a", "--any", "thing")):
        assert run(*arguments, monkeypatch=monkeypatch, **entries) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"kiln: a is installed as {value}, which cannot be loaded (")
        assert said.endswith("); install that package again\n")


def test_who_asks_for_one_command_waits_for_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[str] = []
    load = EntryPoint.load

    def noted(entry: EntryPoint) -> object:
        loaded.append(entry.name)
        return load(entry)

    monkeypatch.setattr(EntryPoint, "load", noted)
    entries = {"fine": f"{__name__}:fine", "fine_more": f"{__name__}:works", "works": f"{__name__}:works"}
    assert run("works", monkeypatch=monkeypatch, **entries) == 0
    assert (loaded, capsys.readouterr().out) == (["works"], "it works\n")
    assert run("fine", "more", monkeypatch=monkeypatch, **entries) == 0
    assert (loaded[1:], capsys.readouterr().out) == (["fine", "fine.more"], "it works\n")
    assert run("fin", monkeypatch=monkeypatch, **entries) == 2
    assert len(loaded) == 6, "all of them are known when the word is not"
    assert "fine" in capsys.readouterr().err


def test_every_command_that_is_installed_can_be_loaded() -> None:
    assert all(entry.load() for entry in entry_points(group=GROUP))

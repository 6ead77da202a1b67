"""What the whole says: found, not looked at, or well."""

import shutil
from collections.abc import Iterator, Sequence

import pytest

from tests.infra import run, tools
from tests.infra.composition import composition
from tests.infra.outcome import Check, Outcome, outcome_of
from tests.infra.refusals import misspelt, refused
from tests.infra.tools import ToolMissing

WELL = Outcome("3 things")
FOUND = Outcome("3 things", ("a.yaml: is wrong",))


def _missing() -> Outcome:
    raise ToolMissing("there is no such tool; install it")


@pytest.mark.parametrize(
    ("made", "status"),
    [
        ([lambda: WELL], 0),
        ([lambda: WELL, lambda: FOUND], 1),
        ([_missing, lambda: FOUND], 1),
        ([_missing, lambda: WELL], 2),
    ],
)
def test_the_status_says_what_came_of_it(
    made: Sequence[Check], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def checks() -> Iterator[tuple[str, Check]]:
        yield from ((f"check {number}", check) for number, check in enumerate(made))

    monkeypatch.setattr(run, "checks", checks)
    assert run.main() == status
    said = capsys.readouterr().out
    assert ("a.yaml: is wrong" in said) == (status == 1)
    assert ("not checked: there is no such tool; install it" in said) == (_missing in made)


def test_without_go_its_checks_are_skipped_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    tools._program.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "needs Go" in str(outcome_of(composition).skipped)
    tools._program.cache_clear()


def test_a_field_is_misspelt_on_every_level() -> None:
    declared = {"pools": {"default": {"scaling": {"signal": "lag"}}}, "cluster": {"labels": {"a": "b"}}}
    made = dict(misspelt(declared))
    assert made.keys() == {"pools", "cluster", "labels", "scaling", "signal"}
    assert made["signal"]["pools"]["default"] == {"scaling": {"signalx": "lag"}}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (None, "passed over in silence"),
        ("kiln: pools.yaml: something is wrong", "without its name"),
        ("kiln: signalx is wrong\nand more", "more than one sentence"),
        ("kiln: pools.yaml: pools.default.scaling.signalx: Extra inputs are not permitted", "None"),
    ],
)
def test_a_refusal_names_the_field_in_one_sentence(said: str | None, wanted: str) -> None:
    assert wanted in str(refused(said, "signal"))

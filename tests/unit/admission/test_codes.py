"""Each code has its cause and cure, is said where the page tells, and the page is that of the code."""

import ast
from pathlib import Path
from typing import get_args

import pytest

from admission import codes as module
from admission.codes import DEAD_LETTERS, REJECTIONS, bounds
from schemas.catalogue import ConfigProblem
from schemas.decision import DeadLetterReason, RejectionCode
from schemas.errors import CommandError
from streams.commands.codes import PAGE, page_with, tables
from streams.commands.codes import codes as write_codes

STAGES = Path(module.__file__).parent / "stages"


def said_in(path: Path) -> set[str]:
    """The codes that a module's own calls name."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    arguments = [inner for call in calls for each in call.args[:1] for inner in ast.walk(each)]
    words = {node.value for node in arguments if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return words & set(get_args(RejectionCode))


def test_every_code_is_in_the_table() -> None:
    assert set(REJECTIONS) == set(get_args(RejectionCode))
    assert set(DEAD_LETTERS) == set(get_args(DeadLetterReason))


def test_a_code_is_said_by_the_stages_that_the_table_names_and_by_no_other() -> None:
    said = {path.stem: said_in(path) for path in STAGES.glob("*.py")}
    said["config"] |= set(get_args(ConfigProblem.__annotations__["code"]))
    for code, entry in REJECTIONS.items():
        assert sorted(entry.stages) == sorted(stage for stage, codes in said.items() if code in codes), code


@pytest.mark.parametrize("code", [*REJECTIONS.values(), *DEAD_LETTERS.values()], ids=[*REJECTIONS, *DEAD_LETTERS])
def test_a_code_has_sentences_that_fit_into_a_table(code: module.Code) -> None:
    for text in (code.cause, code.cure, *bounds(code)):
        assert text
        assert "|" not in text
        assert "\n" not in text
    assert code.cause.endswith(".")
    assert code.cure.endswith(".")


def test_a_limit_is_named_by_its_variable_and_default() -> None:
    assert "`KILN_ADMISSION_HEADERS_MAX` (32)" in bounds(REJECTIONS["too_large"])


def test_the_page_is_that_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page_with(text) == text, "run kiln admission codes"


def test_a_page_that_differs_is_seen_and_written_again() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page_with(text.replace("`too_large`", "`too_small`")) == text
    assert all(f"`{code}`" in tables() for code in (*REJECTIONS, *DEAD_LETTERS))


def test_the_command_writes_the_page_and_checks_it(tmp_path: Path) -> None:
    page = tmp_path / "admission.md"
    page.write_text(PAGE.read_text(encoding="utf-8").replace("`too_large`", "`too_small`"), encoding="utf-8")
    with pytest.raises(CommandError, match="kiln admission codes"):
        write_codes(page, check=True)
    write_codes(page)
    write_codes(page, check=True)
    with pytest.raises(CommandError, match="missing"):
        write_codes(tmp_path / "missing.md")


def test_a_page_without_a_place_for_the_tables_is_said() -> None:
    with pytest.raises(ValueError, match="no place"):
        page_with("# Admission\n")

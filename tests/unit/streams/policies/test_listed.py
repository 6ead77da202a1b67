"""The policy that comes with us: a file of terms."""

from pathlib import Path

import pytest

from admission.policy import PolicyAnswer, PolicyText
from schemas.errors import CatalogueError
from streams.policies.listed import ListedPolicy, load


@pytest.fixture
def terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "terms.txt"
    path.write_text("\ufeff# ours\nkill\n[gore]\nBlood  Bath\n", encoding="utf-8")
    monkeypatch.setenv("KILN_ADMISSION_POLICY_LIST_FILE", str(path))
    return path


def judged(prompt: str, negative: str = "") -> PolicyAnswer | None:
    policy = load()
    assert isinstance(policy, ListedPolicy)
    return policy.judge(PolicyText("alice", "sketch@1", prompt, negative))


@pytest.mark.usefixtures("terms")
def test_a_prompt_with_a_term_is_refused_with_its_category() -> None:
    assert judged("a kiln") is None
    assert judged("k\u200bill") == PolicyAnswer("list")
    assert judged("a blood-bath") == PolicyAnswer("gore")
    assert judged("a kiln", "blood bath") == PolicyAnswer("gore", "negative_prompt")


@pytest.mark.usefixtures("terms")
def test_negative_prompts_may_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_ADMISSION_POLICY_LIST_NEGATIVE", "false")
    assert judged("a kiln", "blood bath") is None
    assert judged("blood bath") == PolicyAnswer("gore")


def test_without_a_file_or_a_term_nothing_is_judged(terms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms.write_text("# nothing yet\n", encoding="utf-8")
    assert load() is None
    monkeypatch.delenv("KILN_ADMISSION_POLICY_LIST_FILE")
    assert load() is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"ok\nki*ll\n", "line 2"),
        (b"\xff\xfe", "cannot be used"),
        (b"kill\n" * 10, "has 50 bytes, and 40 are read"),
        (b"a\nb\nc\nd\n", "line 4: more than 3 terms"),
    ],
)
def test_a_file_that_cannot_be_used_is_said(
    terms: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, problem: str
) -> None:
    """At the start: a list that is half read would let pass what it was written against."""
    monkeypatch.setenv("KILN_ADMISSION_POLICY_LIST_BYTES_MAX", "40")
    monkeypatch.setenv("KILN_ADMISSION_POLICY_LIST_TERMS_MAX", "3")
    terms.write_bytes(content)
    with pytest.raises(CatalogueError, match=problem):
        load()


def test_a_file_that_is_not_there_is_said(terms: Path) -> None:
    terms.unlink()
    with pytest.raises(CatalogueError, match=r"terms\.txt cannot be used"):
        load()

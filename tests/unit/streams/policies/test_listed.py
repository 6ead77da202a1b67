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
    assert judged("kill") is None
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


def kills(policy: ListedPolicy | None) -> bool:
    assert policy is not None
    return policy.judge(PolicyText("alice", "sketch@1", "they kill")) is not None


def test_a_file_that_changed_is_read_again_once_it_has_settled(terms: Path, caplog: pytest.LogCaptureFixture) -> None:
    policy = load()
    assert policy is not None
    policy.refresh()
    terms.write_text("# being written\n", encoding="utf-8")
    policy.refresh()
    terms.write_text("blood\nbones\n", encoding="utf-8")
    policy.refresh()
    assert kills(policy), "a file that was another one at the last look may be half of one"
    with caplog.at_level("INFO", "streams"):
        for _ in range(3):
            policy.refresh()
    assert not kills(policy)
    assert policy.judge(PolicyText("alice", "sketch@1", "bones")) == PolicyAnswer("list")
    assert [line.partition("terms.txt")[2] for line in caplog.messages] == [" has changed: 2 in it now"]


@pytest.mark.parametrize("content", [b"fine\nki*ll\n", b"\xff\xfe", None])
def test_a_new_file_that_cannot_be_used_leaves_the_list_as_it_was(terms: Path, content: bytes | None) -> None:
    policy = load()
    assert policy is not None
    if content is None:
        terms.unlink()
    else:
        terms.write_bytes(content)
        policy.refresh()
    depths = list[int]()
    for _ in range(3):  # it is still wrong, and still said
        with pytest.raises(CatalogueError, match=r"the list of terms .*terms\.txt cannot be used") as said:
            policy.refresh()
        depths.append(len(said.traceback))
    assert depths[1] == depths[2], "one that is raised again keeps each place where it was"
    assert kills(policy)
    terms.write_text("fine\n", encoding="utf-8")
    policy.refresh()
    policy.refresh()
    assert not kills(policy)


def test_a_mount_that_changes_its_link_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes: the file is a link into a folder of one version."""
    for version, term in (("1", "kill"), ("2", "bone")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "terms.txt").write_text(f"{term}\n", encoding="utf-8")
    (tmp_path / "now").symlink_to("1")
    monkeypatch.setenv("KILN_ADMISSION_POLICY_LIST_FILE", str(tmp_path / "now" / "terms.txt"))
    policy = load()
    assert policy is not None
    assert kills(policy)
    (tmp_path / "next").symlink_to("2")
    (tmp_path / "next").rename(tmp_path / "now")
    policy.refresh()
    policy.refresh()
    assert not kills(policy)

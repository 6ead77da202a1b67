"""Which policies judge."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import CatalogueError
from streams.policies import loading
from streams.policies.listed import ListedPolicy
from streams.policies.loading import GROUP, PolicySettings, load_policies


class Silent:
    problem = None

    def judge(self, text: object) -> None: ...


def nothing_to_judge() -> None: ...


def broken() -> Silent:
    raise RuntimeError("no weights")


def toothless() -> object:
    return object()


def installed(monkeypatch: pytest.MonkeyPatch, **entries: str | list[str]) -> None:
    found = [
        EntryPoint(name, value, GROUP)
        for name, values in entries.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    monkeypatch.setattr(loading, "entry_points", lambda group: EntryPoints(found).select(group=group))


def loaded(plugins: str) -> Any:
    return load_policies(PolicySettings(plugins=plugins))


def here(name: str) -> str:
    return f"{__name__}:{name}"


def test_the_list_is_installed_and_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_policies(PolicySettings()) == {}, "without a file there is nothing to judge"
    path = tmp_path / "terms.txt"
    path.write_text("kill\n", encoding="utf-8")
    monkeypatch.setenv("KILN_ADMISSION_POLICY_LIST_FILE", str(path))
    assert [*map(type, load_policies(PolicySettings()).values())] == [ListedPolicy]


def test_the_chosen_ones_judge_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, one=here("Silent"), two=here("Silent"), none=here("nothing_to_judge"))
    assert [*loaded("two, none,one")] == ["two", "one"]
    assert loaded(" ") == {}


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        ("three", r"no content policy 'three' is installed; .* may name: broken, one, toothless, twice"),
        ("one,one", "names a policy twice"),
        ("twice", "'twice' is installed twice"),
        ("broken", r"'broken' \(.*:broken\) does not start: RuntimeError: no weights"),
        ("toothless", r"has no judge\(\)"),
    ],
)
def test_one_that_cannot_judge_is_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, plugins: str, problem: str
) -> None:
    """To start without it would let pass whatever it is there for."""
    installed(
        monkeypatch,
        one=here("Silent"), broken=here("broken"), toothless=here("toothless"), twice=[here("Silent"), here("broken")],
    )  # fmt: skip
    with pytest.raises(CatalogueError, match=problem):
        loaded(plugins)

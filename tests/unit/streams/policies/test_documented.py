"""The policy that docs/admission.md shows is one."""

import re
import sys
import types
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from admission.policy import PolicyAnswer, PolicyText
from streams.commands.codes import PAGE
from streams.policies import loading
from streams.policies.listed import load as load_list
from streams.policies.loading import GROUP, PolicySettings, load_policies


def shown(language: str) -> str:
    found = re.search(rf"## Content policy\n.*?```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("studio_policy")
    exec(compile(shown("python"), "docs/admission.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "studio_policy", module)
    monkeypatch.setenv("STUDIO_NAMES", "Ada Grace")
    entries = EntryPoints([EntryPoint("names", "studio_policy:load", GROUP)])
    monkeypatch.setattr(loading, "entry_points", lambda group: entries.select(group=group))
    policy = load_policies(PolicySettings(plugins="names"))["names"]
    assert policy.problem is None
    assert policy.judge(PolicyText("atelier", "sketch@1", "ADA\u200b at a loom")) == PolicyAnswer("real person")
    assert policy.judge(PolicyText("newsroom", "sketch@1", "Ada at a loom")) is None
    assert policy.judge(PolicyText("atelier", "sketch@1", "a loom")) is None


def test_the_list_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "terms.txt"
    path.write_text(shown(""), encoding="utf-8")
    monkeypatch.setenv("KILN_ADMISSION_POLICY_LIST_FILE", str(path))
    policy = load_list()
    assert policy is not None
    assert policy.terms.number == 2
    assert policy.judge(PolicyText("atelier", "sketch@1", "dismembered")) == PolicyAnswer("gore")

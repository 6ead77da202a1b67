"""Alert rules: as promtool takes them, fired by its tests, and reading what somebody exposes. Dashboards likewise."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from infra.observe.metrics import labels_of
from tests.infra.outcome import Outcome, counted
from tests.infra.rendered import Object
from tests.infra.tools import WORK, ToolMissing, lines, promtool, run
from tests.promql import selectors

TESTS = Path(__file__).parent / "rules"
_OF_PROMETHEUS = frozenset({"up", "ALERTS", "ALERTS_FOR_STATE"})  # that it makes itself
_PASSED = re.compile(r"(\d+) passed")
_LABEL_VALUES = re.compile(r"^label_values\((?:(?P<metric>[^,]+),)?\s*\w+\)$")


def checked_rules(groups: Iterable[Object], name: str) -> Outcome:
    """promtool check rules. Raises ToolMissing."""
    file = _write(list(groups), WORK / "rules" / f"{name}.yaml")
    done = run(promtool(), "check", "rules", "--lint=all", "--lint-fatal", file)
    number = sum(len(group["rules"]) for group in _groups(file))
    found = lines(done.said, of=file.name) if done.code else ()
    return Outcome(counted(rules=number), found if number else (*found, f"{name} has no rules"))


def tested_rules() -> Outcome:
    """promtool test rules: each alert fires in its story and is silent in another. Raises ToolMissing."""
    done = run(sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", TESTS)
    said = done.out.strip().splitlines()
    if done.code == 0 and "skipped" in said[-1]:
        raise ToolMissing(next((line.partition(": ")[2] for line in said if line.startswith("SKIPPED")), said[-1]))
    number = _PASSED.search(said[-1] if said else "")
    wrong = [line.removeprefix("E ") for line in said if line.startswith(("E ", "FAILED", "ERROR"))]
    found = lines("\n".join(wrong), of=TESTS.name)
    if done.code and not found:
        found = (f"{TESTS.name}: {done.said[-300:]}",)
    return Outcome(counted(tests=int(number[1]) if number else 0), found)


def known_queries(groups: Sequence[Object], dashboards: dict[str, Object]) -> Outcome:
    """Every metric that a rule or a panel names is in infra/observe/metrics.py, or a rule records it."""
    asked = [
        (f"rule {rule.get('alert') or rule['record']}", rule["expr"]) for group in groups for rule in group["rules"]
    ]
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    for name, dashboard in dashboards.items():
        asked += [(f"{name}, {where}", expr) for where, expr in _asked(dashboard, "the dashboard")]
    found = [problem for where, expr in asked for problem in _unknown(where, expr, recorded)]
    if not dashboards:
        found.append("there are no dashboards")
    return Outcome(counted(dashboards=len(dashboards), queries=len(asked)), tuple(found))


def _unknown(where: str, expr: str, recorded: set[str]) -> Iterator[str]:
    try:
        named = selectors(expr)
    except ValueError as error:
        yield f"{where}: {expr!r} is no PromQL: {error}"
        return
    if not named:
        yield f"{where}: {expr!r} reads nothing"
    for each in named:
        if each.name not in recorded | _OF_PROMETHEUS and labels_of(each.name) is None:
            yield f"{where}: nobody exposes {each.name or 'a series without a name'}"


def _asked(node: Any, where: str) -> Iterator[tuple[str, str]]:
    """Every query of a dashboard, whatever it is part of, and the metric whose labels a variable lists."""
    if isinstance(node, list):
        for each in node:
            yield from _asked(each, where)
    if isinstance(node, dict):
        where = node.get("title") or node.get("name") or where
        query = node.get("query")
        if isinstance(node.get("expr"), str):
            yield where, node["expr"]
        if node.get("type") == "query" and isinstance(query, str | dict):
            text = query if isinstance(query, str) else str(query.get("query", ""))
            values = _LABEL_VALUES.match(text)
            yield where, (values["metric"] or text) if values else text
        for each in node.values():
            yield from _asked(each, where)


def _write(groups: list[Object], file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"groups": groups}, allow_unicode=True, width=1000), encoding="utf-8")
    return file


def _groups(file: Path) -> list[Object]:
    groups: list[Object] = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    return groups

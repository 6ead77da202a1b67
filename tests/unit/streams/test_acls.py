"""Every topic: how it is cleaned up, who may read and write it, and who has it in its code.

A topic that is new is a row of the table, or these tests fail.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from schemas.pools import Pools
from schemas.topics import Catalogue, TopicSettings
from streams.acls import Acl, roles
from tests.kafka import small_catalogue

ROOT = Path(__file__).parents[3]
TENANT = "atelier"
CATALOGUE = Catalogue(TopicSettings(), Pools(pools=small_catalogue("kiln").pools), [TENANT])
ADMISSION, GATE, GPU, SCALER, PRODUCER = "admission", "gate", "gpu-consumer/a", "scaler", "producer"
ROLES = roles(CATALOGUE)


@dataclass(frozen=True)
class Topic:
    """`called`: what the catalogue calls it. An operator reads all, and is not named."""

    name: str
    called: str
    cleanup: str
    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()


TOPICS = (
    Topic("kiln.requests", "requests", "delete", (ADMISSION,), (ADMISSION, GATE, PRODUCER)),
    Topic("kiln.decisions", "decisions", "delete", (ADMISSION,), (ADMISSION,)),
    Topic("kiln.tenants", "tenants", "compact", (ADMISSION,), (ADMISSION,)),
    Topic("kiln.usage", "usage", "delete", (), (ADMISSION,)),
    Topic("kiln.results", "results", "delete", (ADMISSION, "result-reader"), (ADMISSION, GPU)),
    Topic("kiln.dead-letters", "dead_letters", "delete", (), (ADMISSION, GATE, GPU)),
    Topic("kiln.progress", "progress", "delete", ("result-reader",), (GPU,)),
    Topic("kiln.cancels", "cancels", "compact,delete", (ADMISSION, GPU), (ADMISSION, "operator")),
    Topic("kiln.control", "control", "compact", (ADMISSION, GPU), (ADMISSION, "operator")),
    Topic("kiln.observations", "observations", "compact", (ADMISSION, GPU, SCALER), (ADMISSION, GPU)),
    Topic("kiln.uptime", "uptime", "compact,delete", (), (GPU,)),
    Topic("kiln.requests.atelier", "tenant_requests", "delete", (GATE,), (f"producer/{TENANT}",)),
    Topic("kiln.work.a.interactive", "work", "delete", (GPU, SCALER), (ADMISSION,)),
    Topic("kiln.work.a.standard", "work", "delete", (GPU, SCALER), (ADMISSION,)),
    Topic("kiln.work.a.bulk", "work", "delete", (GPU, SCALER), (ADMISSION,)),
    Topic("kiln.ledger.a", "ledger", "compact", (GPU, SCALER), (GPU,)),
)
# What each process runs; of the gate only itself, for it borrows from admission how a dead letter is written.
PROCESSES = {
    ADMISSION: ("streams.service", "streams.intake.plain", "streams.intake.faust"),
    GATE: ("streams.gate.service",),
    GPU: ("gpu_consumer.service",),
    SCALER: ("infra.scaler.service",),
}
BORROWED = {GATE: {"streams.batch", "streams.usage"}}
_OURS = ("admission", "gpu_consumer", "infra", "schemas", "streams")


def allowed(role: str, topic: str, operation: str) -> bool:
    def matches(acl: Acl) -> bool:
        return topic.startswith(acl.name) if acl.prefixed else topic == acl.name

    return any(acl.resource == "topic" and operation in acl.operations and matches(acl) for acl in ROLES[role])


def test_the_table_has_every_topic_that_the_catalogue_creates_and_checks() -> None:
    assert [spec.name for spec in CATALOGUE.specs()] == [topic.name for topic in TOPICS]


def test_no_name_of_the_catalogue_is_left_uncreated() -> None:
    named = {name: value for name, value in vars(CATALOGUE).items() if isinstance(value, str)}
    topics = {value for name, value in named.items() if not name.endswith("_group")}
    assert topics <= {spec.name for spec in CATALOGUE.specs()}


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_topic_is_cleaned_up_as_it_is_meant(topic: Topic) -> None:
    """A state is compacted for ever, a log deleted, and what ends by itself is both."""
    (spec,) = [spec for spec in CATALOGUE.specs() if spec.name == topic.name]
    assert spec.config["cleanup.policy"] == topic.cleanup
    assert ("retention.ms" in spec.config) is ("delete" in topic.cleanup)


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_who_reads_or_writes_a_topic_may_and_nobody_else(topic: Topic) -> None:
    others = ROLES.keys() - {"operator"}
    assert {role for role in others if allowed(role, topic.name, "read")} == set(topic.readers)
    assert {role for role in ROLES if allowed(role, topic.name, "write")} == set(topic.writers)
    assert all(allowed("operator", topic.name, operation) for operation in ("read", "create", "describe-configs"))


@pytest.mark.parametrize("role", PROCESSES)
def test_a_process_has_the_rights_that_its_code_names_and_no_more(role: str) -> None:
    modules = _imported(PROCESSES[role]) - BORROWED.get(role, set())
    opened = {name for module in modules for name in _topics_named_in(module)}
    assert opened == {topic.called for topic in TOPICS if role in (*topic.readers, *topic.writers)}


@pytest.mark.parametrize("role", ROLES)
def test_the_page_tells_of_each_role_and_its_topics(role: str) -> None:
    name = role.replace(f"/{TENANT}", "/<tenant>").replace("/a", "/<pool>")
    page = (ROOT / "docs" / "admission.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
    assert all(topic.name.split(".")[1] in row for topic in TOPICS if role in (*topic.readers, *topic.writers))


def _path(module: str) -> Path | None:
    stem = ROOT.joinpath(*module.split("."))
    found = (stem.with_suffix(".py"), stem / "__init__.py")
    return next((path for path in found if path.exists()), None) if module.split(".", maxsplit=1)[0] in _OURS else None


def _tree(module: str) -> ast.Module:
    path = _path(module)
    assert path is not None
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(modules: Iterable[str]) -> set[str]:
    """All of ours that these import, and what those do."""
    found, left = set[str](), list(modules)
    while left:
        module = left.pop()
        if module not in found and _path(module) is not None:
            found.add(module)
            for node in ast.walk(_tree(module)):
                if isinstance(node, ast.ImportFrom) and node.module:
                    left += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                elif isinstance(node, ast.Import):
                    left += [alias.name for alias in node.names]
    return found


def _topics_named_in(module: str) -> Iterator[str]:
    """`catalogue.results`, or `self._catalogue.results`."""
    if module in {"schemas.topics", "streams.acls"}:
        return
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if of.removeprefix("_") == "catalogue" and node.attr in {topic.called for topic in TOPICS}:
                yield node.attr

"""Models that come through control are counted, too."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import generate_latest

from admission.world import World
from gpu_consumer.models.tokenizer import clip_tokenizer
from schemas.catalogue import ConfigCatalogue
from streams.facts import tokens
from streams.facts.base import Fact
from streams.facts.tokens import TokensFact
from streams.metrics import AdmissionMetrics
from streams.tokenizers import load_counters
from streams.world import WorldView, work_partitions
from tests.unit.admission.scene import config_file, make_world


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("old", "new"):
        clip_tokenizer().save_pretrained(tmp_path / name / "tokenizer")
    return tmp_path


def configs(*models: str) -> ConfigCatalogue:
    digest = "sha256:" + "0" * 64
    return ConfigCatalogue(config_file(f"c-{name}", model={"name": name, "digest": digest}) for name in models)


def started_with(folder: Path, *models: str) -> World:
    declared = configs(*models)
    return replace(make_world(), configs=declared, tokens=load_counters(folder, declared))


def exposed(metrics: AdmissionMetrics) -> str:
    page: bytes = generate_latest(metrics.registry)
    return page.decode()


async def settled(fact: TokensFact) -> None:
    async with asyncio.timeout(60):
        while True:
            if fact.problem is None:
                return
            await asyncio.sleep(0.001)


async def test_a_model_that_came_later_is_counted(folder: Path) -> None:
    world, metrics = started_with(folder, "old"), AdmissionMetrics()
    async with TokensFact(folder, world, metrics) as fact:
        assert fact.into(world).tokens is world.tokens
        problems = [fact.problem]
        later = replace(world, configs=configs("old", "new", "gone"))
        assert [*fact.into(later).tokens] == ["old"]
        problems.append(fact.problem)
        await settled(fact)
        assert problems == [None, "the tokenizers of new configurations are being read"]
        assert [*fact.into(later).tokens] == ["old", "new"]
        assert (fact.problem, fact.failure) == (None, None)
        assert "models_not_counted 1.0" in exposed(metrics)
        assert fact.into(later).tokens["old"] is world.tokens["old"], "what is known is not read again"
        clip_tokenizer().save_pretrained(folder / "gone" / "tokenizer")
        again = replace(world, configs=configs("old", "new", "gone"))
        fact.into(again)
        await settled(fact)
        assert [*fact.into(again).tokens] == ["old", "new", "gone"]


async def test_a_broken_folder_holds_up_nobody(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "new" / "tokenizer" / "tokenizer_config.json").write_text("{", encoding="utf-8")
    world = started_with(folder, "old")
    later = replace(world, configs=configs("old", "new"))
    with caplog.at_level(logging.WARNING, "streams"):
        async with TokensFact(folder, world, AdmissionMetrics()) as fact:
            fact.into(later)
            await settled(fact)
            assert [*fact.into(later).tokens] == ["old"]
            assert (fact.problem, fact.failure) == (None, None)
    (line,) = caplog.messages
    assert "cannot be read" in line
    assert "the prompts of model new are not counted" in line


async def test_what_nobody_foresaw_ends_the_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(tokens, "more_counters", broken)
    world = started_with(folder, "old")
    async with TokensFact(folder, world, AdmissionMetrics()) as fact:
        fact.into(replace(world, configs=configs("old", "new")))
        await settled(fact)
        assert str(fact.failure) == "a defect"


class Says:
    """What changes the configurations, as control does."""

    name, problem, failure, age_seconds = "says", None, None, 0.0

    def __init__(self) -> None:
        self.configs: ConfigCatalogue | None = None

    async def __aenter__(self) -> "Says":
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def into(self, world: World) -> World:
        return world if self.configs is None else replace(world, configs=self.configs)


async def test_nothing_is_decided_by_a_configuration_before_its_tokenizer_is_known(folder: Path) -> None:
    world = started_with(folder, "old")
    says, fact = Says(), TokensFact(folder, world, AdmissionMetrics())
    facts = cast(Sequence[Fact], (says, fact))
    counts = {spec.name: spec.partitions for spec in world.catalogue.specs()}
    assert work_partitions(world.catalogue, counts)

    class Cluster:
        async def partition_counts(self) -> dict[str, int]:
            return counts

    async with WorldView(world, cast(Any, Cluster()), facts) as view:
        await view.refresh()
        before, says.configs = view.current, configs("old", "new")
        meanwhile, problem = view.current, view.problem
        await settled(fact)
        after = view.current
    assert before is not None
    assert (meanwhile, problem) == (None, "the tokenizers of new configurations are being read")
    assert after is not None
    assert [*after.tokens] == ["old", "new"]

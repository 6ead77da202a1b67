"""What control makes of the world that admission decides by."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from admission.world import World
from schemas.catalogue import ConfigCatalogue
from schemas.control import (
    Channel,
    Drop,
    Pause,
    Placement,
    PublishConfig,
    Retire,
    SetQuota,
    Subject,
    control_key,
)
from schemas.request import ConfigRef
from schemas.stops import Dropped
from schemas.tenants import Quota, Tenants
from streams.facts.control import ControlFact
from streams.kafka.settings import KafkaSettings
from streams.metrics import AdmissionMetrics
from tests.unit.admission.scene import NOW_MS, config_file, make_world
from tests.unit.streams.test_control import record

WORLD = make_world()
PASSED_OVER = "kiln_admission_control_passed_over_total"


@pytest.fixture
def metrics() -> AdmissionMetrics:
    return AdmissionMetrics()


@pytest.fixture
def fact(metrics: AdmissionMetrics) -> ControlFact:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    return ControlFact(kafka, WORLD.catalogue, WORLD.configs, metrics)


def test_without_a_word_of_control_the_files_stand(fact: ControlFact) -> None:
    assert fact.problem == "control is not read to its end yet"
    world = fact.into(WORLD)
    assert world.configs.files == WORLD.configs.files
    assert world.tenants == WORLD.tenants


def test_every_word_of_control_comes_into_the_world(fact: ControlFact) -> None:
    placement = Placement.model_validate({"term": 1, "partitions": 8, "models": {}})
    quota = Quota(per_second=7, burst=7)
    for key, said in (
        (control_key("config", "oil"), PublishConfig(file=config_file("oil"))),
        (control_key("channel", "sketch", "next"), Channel(versions={2: 1})),
        (control_key("retire", "sketch", "1"), Retire()),
        (control_key("tenant", "carol"), SetQuota(quota=quota)),
        (control_key("pause", "tenant", "alice"), Pause()),
        (control_key("drop", "pool", "default"), Drop()),
        (control_key("placement", "default"), placement),
    ):
        fact.fold(record(key, said))
    world = fact.into(WORLD)
    assert set(world.configs.files) == {*WORLD.configs.files, "oil"}
    assert world.configs.files["sketch"].channels["next"] == {2: 1.0}
    assert world.configs.files["sketch"].versions[1].retired
    assert world.tenants.quota_of("carol") == quota
    assert world.tenants.quota_of("alice") == WORLD.tenants.quota_of("alice")
    assert world.paused == {Subject("tenant", "alice"): Pause()}
    assert world.dropped == {Subject("pool", "default"): Dropped(NOW_MS)}
    assert world.placements == {"default": placement}
    assert world.limits is WORLD.limits

    fact.fold(record(control_key("config", "oil"), None))
    fact.fold(record(control_key("tenant", "carol"), None))
    after = fact.into(WORLD)
    assert "oil" not in after.configs.files
    assert after.tenants.quota_of("carol") == WORLD.tenants.default


@pytest.mark.parametrize("declared", [{"tenants": {"dora": {"signed": True}}}, {"default": {"signed": True}}])
def test_a_quota_of_control_does_not_spare_a_tenant_its_signature(fact: ControlFact, declared: dict[str, Any]) -> None:
    """Who raises a burst in a hurry, and leaves `signed` out, must not let anybody speak for the tenant."""
    bare = {"per_second": 1, "burst": 1}
    tenants = {name: bare | quota for name, quota in declared.get("tenants", {}).items()}
    default = bare | declared["default"] if "default" in declared else None
    files = replace(WORLD, tenants=Tenants.model_validate({"default": default, "tenants": tenants}))
    fact.fold(record(control_key("tenant", "dora"), SetQuota(quota=Quota(per_second=7, burst=7))))
    fact.fold(record(control_key("tenant", "carol"), SetQuota(quota=Quota(per_second=7, burst=7, signed=True))))
    quotas = fact.into(files).tenants
    assert quotas.quota_of("dora") == Quota(per_second=7, burst=7, signed=True)
    assert quotas.quota_of("carol") == Quota(per_second=7, burst=7, signed=True)


def test_it_is_built_anew_only_when_something_changed(fact: ControlFact) -> None:
    fact.fold(record(control_key("config", "oil"), PublishConfig(file=config_file("oil"))))
    configs = fact.into(WORLD).configs
    assert fact.into(WORLD).configs is configs
    fact.fold(record(control_key("config", "oil"), PublishConfig(file=config_file("oil"))))
    assert fact.into(WORLD).configs is configs, "it said what it had said before"
    fact.fold(record(control_key("pause", "tenant", "alice"), Pause()))
    fact.fold(record(control_key("tenant", "carol"), SetQuota(quota=Quota(per_second=7, burst=7))))
    paused = fact.into(WORLD)
    assert paused.tenants.quota_of("carol") == Quota(per_second=7, burst=7)
    assert paused.configs is configs, "it is no configuration that changed"
    fact.fold(record(control_key("retire", "oil", "1"), Retire()))
    assert fact.into(WORLD).configs is not configs
    other = World(WORLD.catalogue, ConfigCatalogue([]), WORLD.tenants, {}, WORLD.limits)
    assert set(fact.into(other).configs.files) == {"oil"}


def test_another_hash_under_a_published_label_is_never_served(
    fact: ControlFact, metrics: AdmissionMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    """A second writer, or an older checkout, says that a version is another: the old one stays, and it is said."""
    before = WORLD.configs.files["sketch"].versions[1].config_hash
    with caplog.at_level(logging.WARNING):
        fact.fold(record(control_key("config", "sketch"), PublishConfig(file=config_file("sketch", steps=50))))
    config = fact.into(WORLD).configs.resolve(ConfigRef(name="sketch", version=1), b"blue/1")
    assert getattr(config, "config_hash", None) == before
    assert "is passed over: sketch@1 is published already, with other pixels" in caplog.text
    assert metrics.registry.get_sample_value(PASSED_OVER, {"reason": "another_hash"}) == 1


def test_what_cannot_come_true_is_said_once(
    fact: ControlFact, metrics: AdmissionMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        fact.fold(record(b"weather/here", b"{}"))
        fact.fold(record(control_key("channel", "oil", "stable"), Channel(versions={1: 1})))
        fact.into(WORLD)
        fact.fold(record(control_key("pause", "tenant", "alice"), Pause()))
        fact.into(WORLD)
    assert len(caplog.records) == 2
    assert metrics.registry.get_sample_value(PASSED_OVER, {"reason": "unreadable"}) == 1
    assert metrics.registry.get_sample_value("kiln_admission_control_problems") == 1
    fact.fold(record(control_key("channel", "oil", "stable"), None))
    fact.into(WORLD)
    assert metrics.registry.get_sample_value("kiln_admission_control_problems") == 0

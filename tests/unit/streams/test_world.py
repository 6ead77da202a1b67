"""The world admission decides by: declared in files, seen in the cluster."""

import json
from pathlib import Path

import pytest

from admission.settings import AdmissionLimits
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError
from schemas.request import LANES
from streams.world import load_world, topics_missing, work_partitions
from tests.kafka import small_catalogue

CATALOGUE = small_catalogue("kiln", requests_partitions=2, work_partitions=4, pools=("a", "b"))
ALL = {spec.name: spec.partitions for spec in CATALOGUE.specs()}


def test_a_whole_cluster_lacks_nothing() -> None:
    assert topics_missing(CATALOGUE, ALL) is None
    assert work_partitions(CATALOGUE, ALL) == {"a": 4, "b": 4}


@pytest.mark.parametrize("topic", ["kiln.results", "kiln.dead-letters", "kiln.control", "kiln.work.b.bulk"])
def test_a_missing_topic_is_named_with_the_cure(topic: str) -> None:
    sentence = topics_missing(CATALOGUE, {name: count for name, count in ALL.items() if name != topic})
    assert sentence == f"the topic {topic} is missing; run `kiln topics create`"


def test_another_count_of_requests_would_split_tenants() -> None:
    assert "KILN_TOPICS_REQUESTS_PARTITIONS" in (topics_missing(CATALOGUE, ALL | {"kiln.requests": 3}) or "")


def test_work_may_have_more_partitions_than_declared_and_not_fewer() -> None:  # case KQ-07
    grown = ALL | {CATALOGUE.work("a", lane): 8 for lane in LANES}
    assert topics_missing(CATALOGUE, grown) is None
    assert work_partitions(CATALOGUE, grown)["a"] == 8
    assert "grow the topic" in (topics_missing(CATALOGUE, ALL | {"kiln.work.a.bulk": 2}) or "")


def test_a_published_config_that_changed_stops_the_start(tmp_path: Path) -> None:
    real = DeploymentSettings()
    for file in real.configs.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    deployment = DeploymentSettings(configs=tmp_path)
    assert load_world(deployment, AdmissionLimits()).configs.files
    lock = tmp_path / "configs.lock"
    lock.write_text(json.dumps(json.loads(lock.read_text()) | {"sketch@1": "0" * 64}))
    with pytest.raises(CatalogueError, match="sketch@1 is published and its pixels changed"):
        load_world(deployment, AdmissionLimits())


def test_a_sibling_that_could_not_stand_in_stops_the_start(tmp_path: Path) -> None:
    real = DeploymentSettings()
    for file in real.configs.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "sketch.yaml").write_text((tmp_path / "sketch.yaml").read_text() + "degrades_to: {1: painting@1}\n")
    with pytest.raises(CatalogueError, match="sketch@1 degrades to painting@1, which is not cheaper"):
        load_world(DeploymentSettings(configs=tmp_path), AdmissionLimits())

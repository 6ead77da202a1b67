from dataclasses import replace
from typing import Any

import pytest

from infra.render.declared import Declared
from infra.render.documents import documents
from infra.render.strimzi import topics, users
from schemas.errors import CatalogueError
from schemas.topics import Catalogue
from tests.unit.infra.render.conftest import Declare
from tests.unit.infra.render.test_services import OWN_TOPIC


def test_every_topic_is_as_the_catalogue_says(example: Declared) -> None:
    found = {each["spec"]["topicName"]: each["spec"] for each in topics(example)}
    assert list(found) == [spec.name for spec in example.catalogue.specs()]
    for spec in example.catalogue.specs():
        assert found[spec.name]["partitions"] == spec.partitions
        assert found[spec.name]["config"].items() >= spec.config.items()
        assert found[spec.name]["config"]["min.insync.replicas"] == "2"


def test_the_topics_of_a_pool_are_found_by_its_label(example: Declared) -> None:
    own = [
        each["spec"]["topicName"]
        for each in topics(example)
        if each["metadata"]["labels"].get("promptkiln.dev/pool") == "slices"
    ]
    lanes = [f"kiln.work.slices.{lane}" for lane in ("interactive", "standard", "bulk")]
    assert own == [*lanes, "kiln.ledger.slices"]


def test_topics_lie_where_strimzi_looks_for_them(example: Declared) -> None:
    for each in (*topics(example), *users(example)):
        assert each["metadata"]["namespace"] == "kafka"
        assert each["metadata"]["labels"]["strimzi.io/cluster"] == "kiln"


def test_a_topic_whose_name_kubernetes_refuses_is_called_otherwise(declare: Declare) -> None:
    tenants = OWN_TOPIC.replace("atelier", "Atelier_7")
    found = {each["spec"]["topicName"]: each["metadata"]["name"] for each in topics(declare(tenants=tenants))}
    assert found["kiln.requests"] == "kiln.requests"
    assert found["kiln.requests.Atelier_7"].startswith("kiln-requests-atelier-7-")


def test_a_user_may_what_its_role_needs(example: Declared) -> None:
    found = {each["metadata"]["name"]: each["spec"] for each in users(example)}
    rules = found["kiln-producer"]["authorization"]["acls"]
    assert rules == [
        {
            "type": "allow",
            "resource": {"type": "topic", "name": "kiln.requests", "patternType": "literal"},
            "operations": ["Write"],
            "host": "*",
        }
    ]
    assert {
        "type": "allow",
        "resource": {"type": "topic", "name": "kiln.work.default.", "patternType": "prefix"},
        "operations": ["Read"],
        "host": "*",
    } in found["kiln-gpu-consumer-default"]["authorization"]["acls"]
    assert found["kiln-producer"]["authentication"] == {"type": "scram-sha-512"}


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_every_secret_of_a_user_that_a_pod_reads_is_one_that_strimzi_writes(declare: Declare, protocol: str) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["kafka"]["security_protocol"] = protocol

    declared = declare(change, tenants=OWN_TOPIC)
    made = {each["metadata"]["name"] for each in users(declared)}
    read = {name for name in _secrets(documents(declared)) if name.startswith("kiln-")} - {
        "kiln-cluster-ca-cert",
        "kiln-store",
    }
    assert len(read) == 6  # admission, gate, scaler, KEDA, two pools
    assert read <= made


@pytest.mark.parametrize("change", [{"strimzi_cluster": None}, {"security_protocol": "PLAINTEXT"}])
def test_where_nobody_makes_users_or_asks_for_them_there_are_none(declare: Declare, change: dict[str, Any]) -> None:
    assert list(users(declare(lambda body: body["cluster"]["kafka"].update(change)))) == []


def _secrets(node: Any) -> set[str]:
    """Every name of a Secret below `node`, and that of each key that is taken from one."""
    if isinstance(node, list):
        return set().union(*map(_secrets, node))
    if not isinstance(node, dict):
        return set()
    named = {node["secretName"]} if "secretName" in node else set()
    if {"name", "key"} <= node.keys() and node.get("parameter") != "username":
        named.add(node["name"])
    return named.union(*map(_secrets, node.values()))


def test_a_user_of_a_certificate_whose_name_it_could_not_hold_is_refused(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["kafka"]["security_protocol"] = "SSL"
        body["pools"]["a" * 40] = body["pools"]["slices"]

    named = declare(change)
    assert max(len(each["metadata"]["name"]) for each in users(named)) == 58
    settings = named.catalogue.settings.model_copy(update={"prefix": "kiln-of-ours"})
    long = replace(named, catalogue=Catalogue(settings, named.pools))
    with pytest.raises(CatalogueError, match=r"kiln-of-ours-gpu-consumer-a.* of 66 characters; a certificate holds 64"):
        list(users(long))

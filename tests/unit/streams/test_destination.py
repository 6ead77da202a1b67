"""What `kiln route` says of an answer."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

from admission.stages.route import preferred
from admission.wait import Wait
from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.control import Pause, Placement, Subject
from schemas.request import GenerationRequest
from schemas.tenants import Quota, Tenants
from streams.destination import Destination, destination_of
from streams.kafka.groups import Member
from tests.unit.admission.scene import TENANT, Partition, config_file, make_world, request
from tests.unit.admission.test_question import asked

SKETCH = config_file("sketch").versions[1]


def partition(share: float | None = None) -> Partition:
    quota = Quota(per_second=100, burst=100, outstanding_gpu_seconds=share)
    return Partition(make_world(tenants=Tenants(tenants={TENANT: quota})))


def routed(where: Partition, **wish: Any) -> Destination:
    ref = GenerationRequest.model_validate(request(**wish)).config
    return destination_of(ref, asked(where, **wish), where.state, where.world)


def lines(found: Destination) -> Mapping[str, str]:
    return {what: text.strip() for what, _, text in (line.partition(" ") for line in str(found).splitlines())}


def placed(where: Partition, **said: Any) -> None:
    table = Placement.model_validate({"term": 3, "partitions": 8, "models": {}, **said})
    where.world = replace(where.world, placements={"default": table})


def member(name: str, **owned: list[int]) -> Member:
    assignment = ConsumerProtocolMemberAssignment(0, list(owned.items()), b"").encode()
    return Member(name, "10.0.0.7", assignment)


def test_without_a_placement_the_hash_decides_and_says_so() -> None:
    found = routed(partition())
    assert lines(found) == {
        "config": "sketch@1, by sketch:stable",
        "model": SKETCH.model_key,
        "pool": "default, of 8 partitions",
        "lane": "standard",
        "partition": f"{preferred(SKETCH.config_hash, 8)}: the configuration's hash",
        "placement": "control says nothing of this pool",
        "verdict": "it would enter",
    }
    assert found.topic == "kiln.work.default.standard"


def test_the_place_is_told_with_its_shares_and_the_table_s_term() -> None:
    where = partition()
    placed(where, configs={SKETCH.config_hash: [{"partition": 5, "weight": 2.0}]})
    told = lines(routed(where))
    assert (told["partition"], told["placement"]) == ("5: the configuration's place", "term 3: configuration at 5")
    shares = [{"partition": 5, "weight": 6.0}, {"partition": 6, "weight": 2.0}]
    placed(where, configs={SKETCH.config_hash: shares}, models={SKETCH.model_key: shares})
    told = lines(routed(where))
    assert told["partition"].endswith("the configuration's places, by the request's name")
    assert told["placement"] == "term 3: configuration at 5 (75 %), 6 (25 %); model at 5 (75 %), 6 (25 %)"
    placed(where, models={SKETCH.model_key: [{"partition": 2, "weight": 1.0}]})
    told = lines(routed(where))
    assert told["partition"] == "2: the model's places, by the configuration's hash"
    assert told["placement"] == "term 3: model at 2"


@pytest.mark.parametrize(
    ("partitions", "sentence"),
    [
        (8, "term 3: says nothing of this model"),
        (16, "term 3 is for 16 partitions, more than the pool has: not followed"),
    ],
)
def test_a_table_that_does_not_help_is_told_with_its_reason(partitions: int, sentence: str) -> None:
    where = partition()
    configs = {} if partitions == 8 else {SKETCH.config_hash: [{"partition": 12, "weight": 1.0}]}
    placed(where, partitions=partitions, configs=configs)
    told = lines(routed(where))
    assert told["placement"] == sentence
    assert told["partition"] == f"{preferred(SKETCH.config_hash, 8)}: the configuration's hash"


def test_overflow_is_explained_by_what_the_tenant_has_outstanding() -> None:
    where = partition(share=5.0)
    assert lines(routed(where))["lane"] == "standard: its tenant has 0 of 5 GPU-seconds outstanding in standard"
    for number in range(2):
        where.send(request(f"r{number}"))
    found = routed(where)
    assert lines(found)["lane"] == (
        "bulk, instead of standard: its tenant has 4 of 5 GPU-seconds outstanding in standard, and this would add 2"
    )
    assert found.topic == "kiln.work.default.bulk"
    assert lines(routed(where, priority="interactive"))["lane"].startswith("interactive: its tenant has 0 of 5")
    assert lines(routed(where, priority="bulk"))["lane"] == "bulk"


def versions() -> ConfigFile:
    file = config_file("sketch")
    return file.model_copy(
        update={"channels": {"stable": {1: 95.0, 2: 5.0}}, "degrades_to": {1: "quick@1", 2: "quick@1"}}
    )


def test_a_canary_s_shares_and_what_was_taken_instead_are_told() -> None:
    where = partition()
    quick = config_file("quick", price={"gpu_seconds": 0.5, "vram_bytes": 1 << 20})
    where.world = replace(where.world, configs=ConfigCatalogue([versions(), quick]))
    found = {routed(where, request_id=f"r{n}").config for n in range(200)}
    assert found == {"sketch@1", "sketch@2"}
    told = next(told for n in range(200) if (told := routed(where, request_id=f"r{n}")).config == "sketch@2")
    assert lines(told)["config"] == ("sketch@2, by sketch:stable, which leads to sketch@1 95 %, sketch@2 5 %")
    assert lines(routed(where, config={"name": "sketch", "version": 1}))["config"] == "sketch@1"
    where.world = replace(where.world, waits={"default": Wait({"standard": 1000.0})})
    degraded = routed(where, config={"name": "sketch", "version": 1}, may_degrade=True)
    assert lines(degraded)["config"] == "quick@1 instead of sketch@1: too much waits"


def test_who_has_the_partition_is_told_or_why_nobody_has() -> None:
    found = routed(partition())
    assert found.topic is not None
    assert found.partition is not None
    other = member("kiln-1", **{found.topic: [found.partition + 1], "kiln.work.default.bulk": [found.partition]})
    owner = member("kiln-2", **{found.topic: [found.partition]})
    had = found.had_by([other, owner])
    assert lines(had)["consumer"] == "kiln-2 at 10.0.0.7, one of 2"
    assert had.json()["consumer"] == {"id": "kiln-2", "host": "10.0.0.7"}
    assert lines(found.had_by([]))["consumer"] == "nobody: the pool has no consumer now"
    sharing = found.had_by([Member("kiln-1", "10.0.0.7", b"")])
    assert lines(sharing)["consumer"] == "nobody: the pool's 1 are sharing its partitions out"
    assert (sharing.json()["consumers"], "consumer" in sharing.json()) == (1, False)


def test_a_request_that_would_be_refused_has_what_was_come_to() -> None:
    where = Partition()
    for number in range(5):
        where.send(request(f"r{number}"))
    poor = routed(where)
    assert (poor.enters, poor.code) == (False, "rate_limited")
    assert (poor.partition, poor.lane and poor.lane.taken) == (preferred(SKETCH.config_hash, 8), "standard")
    assert lines(poor)["verdict"].startswith("it would be refused, rate_limited: tenant 'alice'")
    where.world = replace(where.world, paused={Subject("pool", "default"): Pause()})
    paused = routed(where)
    assert (paused.code, paused.lane, paused.topic) == ("paused", None, None), "its lane was not asked yet"
    assert lines(paused)["partition"] == f"{preferred(SKETCH.config_hash, 8)}: the configuration's hash"
    unknown = routed(where, config={"name": "none"})
    assert lines(unknown).keys() == {"verdict"}
    assert unknown.json() == {
        "enters": False, "asked": "none:stable", "code": "unknown_config", "message": unknown.message,
        "silent_partitions": (),
    }  # fmt: skip


def test_it_is_one_object_for_programs() -> None:
    where = partition(share=5.0)
    placed(where, configs={SKETCH.config_hash: [{"partition": 5, "weight": 2.0}]})
    said = json.loads(json.dumps(routed(where).json()))
    assert said["lane"] == {"asked": "standard", "taken": "standard", "outstanding": 0, "price": 2, "share": 5}
    assert said["placement"] == {"term": 3, "partitions": 8, "followed": True, "config": {"5": 1}, "model": {}}
    assert (said["partition"], said["found_by"]) == (5, "the configuration's place")
    assert said["config_hash"] == SKETCH.config_hash

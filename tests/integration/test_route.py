"""`kiln route` over a real broker: where a request would go by what control says, and who has that partition."""

import json
from pathlib import Path

import pytest
import yaml

from admission.stages.route import preferred
from schemas.catalogue import load_configs
from schemas.control import Placement, Share, control_key
from schemas.lock import write_lock
from schemas.topics import Catalogue
from streams.cluster import Cluster
from streams.control_log import read_control, say
from streams.kafka.settings import KafkaSettings
from tests.admission import eventually
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL
from tests.kiln import Kiln

PARTITIONS = 4
PATIENT = ("--timeout", "120")


@pytest.fixture
def config_hash(kiln: Kiln, tmp_path: Path) -> str:
    """Of the one configuration, sketch@1, of the deployment that `kiln` has."""
    version = {
        "family": "sd15", "model": {"name": "tiny", "digest": "sha256:" + "0" * 64}, "steps": 4, "pool": POOL,
        "guidance_scale": 5.0, "width": 64, "height": 64, "price": {"gpu_seconds": 0.2, "vram_bytes": 1 << 20},
    }  # fmt: skip
    folder = tmp_path / "configs"
    folder.mkdir()
    file = {"name": "sketch", "channels": {"stable": 1}, "versions": {1: version}}
    (folder / "sketch.yaml").write_text(yaml.safe_dump(file))
    configs = load_configs(folder)
    write_lock(configs, folder)
    kiln.environment["KILN_CONFIGS"] = str(folder)
    return configs.hashes()["sketch@1"]


async def test_the_command_says_where_a_request_would_go_and_who_has_that(
    kafka: KafkaSettings, catalogue: Catalogue, pool: GpuPool, kiln: Kiln, config_hash: str
) -> None:
    by_hash = preferred(config_hash, PARTITIONS)
    alone = await kiln("route", "a kiln", "--config", "sketch", *PATIENT)
    refused = await kiln.here("route", "a kiln", "--config", "none", *PATIENT)
    assert (alone.code, refused.code) == (0, 3), (alone, refused)
    assert "it would be refused, unknown_config: there is no config 'none'" in refused.out
    told = [line.split(maxsplit=1) for line in alone.out.splitlines()]
    assert ["partition", f"{by_hash}: the configuration's hash"] in told
    assert ["consumer", "nobody: the pool has no consumer now"] in told

    place = (by_hash + 1) % PARTITIONS
    shares = (Share(partition=place, weight=2.0),)
    table = Placement(term=7, partitions=PARTITIONS, models={}, configs={config_hash: shares})
    await say(kafka, catalogue, [(control_key("placement", POOL), table)])
    group, topic = catalogue.gpu_group(POOL), catalogue.work(POOL, "standard")
    async with pool.consumer(), Cluster(kafka, catalogue) as cluster:

        async def owner() -> str | None:
            members = (await cluster.members([group]))[group]
            return next((each.id for each in members if each.has(topic, place)), None)

        has = await eventually(owner, what="an owner of the place")
        found = await kiln.here("route", "a kiln", "--config", "sketch", "--json", *PATIENT)
        shown = await kiln.here("placement", POOL, "--json")
    assert (found.code, shown.code) == (0, 0), (found, shown)
    assert json.loads(shown.out)["places"][place]["configs"] == {"sketch@1": 1.0}
    said = json.loads(found.out)
    assert (said["topic"], said["partition"], said["found_by"]) == (topic, place, "the configuration's place")
    assert (said["placement"]["term"], said["placement"]["config"]) == (7, {str(place): 1.0})
    assert (said["consumer"]["id"], said["consumers"]) == (has, 1)

    taken_back = await kiln.here("placement", POOL, "--undo")
    assert taken_back.code == 0, taken_back
    assert not (await read_control(kafka, catalogue, {})).placements

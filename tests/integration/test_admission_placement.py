"""Where work goes is learned from what comes, and said in control, over a real broker."""

import asyncio
from typing import Any

from schemas.control import Placement, decode_control
from schemas.decision import decode_decision
from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from tests.admission import committed, drained, eventually, produce, request, running, small_world, tenant_of
from tests.kafka import POOL

QUICK: dict[str, Any] = {"demand_seconds": 0.05, "demand_seconds_max": 2.0, "placing_seconds": 0.2}


async def test_what_all_partitions_are_asked_for_is_placed_and_later_work_goes_there(
    kafka: KafkaSettings, catalogue: Catalogue
) -> None:
    world = small_world(catalogue)
    hashes = {name: file.versions[1].config_hash for name, file in world.configs.files.items()}
    tenants = [tenant_of(catalogue, number) for number in range(catalogue.requests_partitions)]

    def ask(first: int) -> None:
        wishes = [
            (tenant.encode(), request(tenant, f"r{first + number}", config={"name": name}))
            for tenant in tenants
            for number, name in enumerate(hashes)
        ]
        produce(kafka, catalogue.requests, wishes, partitioner="murmur2_random")

    async with running(kafka, world, "plain", **QUICK) as service:

        def knows_all() -> bool:
            """A table of all configurations is what requests are decided by."""
            current = service._world and service._world.current
            table = current and current.placements.get(POOL)
            return bool(table and set(hashes.values()) <= table.configs.keys())

        ask(0)
        await eventually(knows_all, what="a placement")
        ask(10)
        await drained(kafka, catalogue)
    seen = await asyncio.to_thread(committed, kafka, catalogue.decisions, catalogue.requests_partitions)
    later = [decode_decision(each.value or b"") for each in seen]
    routes = {(each.request_id, each.tenant): each.route for each in later}
    assert len(routes) == 4 * len(tenants)
    tables = [
        said
        for record in await asyncio.to_thread(committed, kafka, catalogue.control, 1)
        if isinstance(said := decode_control(record.key, record.value or b""), Placement)
    ]
    terms = [said.term for said in tables]
    # A controller that has not read its own word yet says the term again.
    assert sorted(terms) == terms
    assert set(terms) == set(range(terms[-1] + 1)), "one controller, one term after the other"
    for tenant in tenants:
        for number, digest in enumerate(hashes.values()):
            route = routes[f"r{10 + number}", tenant]
            assert route is not None
            # A later table may have moved it, and the decision stands by the one that it saw.
            allowed = {share.partition for said in tables for share in said.configs.get(digest, ())}
            assert route.partition in allowed

"""Who may speak for a tenant, over a real broker: by a signature, and by a topic of its own and the gate."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Producer

from admission.world import World
from schemas.codec import encode
from schemas.dead_letter import HEADER_REASON, HEADER_TOPIC
from schemas.partition import partition_of
from schemas.pools import Pools
from schemas.request import GenerationRequest
from schemas.signature import HEADER_SIGNATURE, SigningKey, parse_signature
from schemas.tenants import Quota
from schemas.topics import Catalogue
from streams.client import PromptClient
from streams.commands.lag import all_lags
from streams.gate.passing import HEADER_GATE
from streams.gate.service import GateService
from streams.gate.settings import GateSettings
from streams.kafka.admin import create_topics
from streams.kafka.errors import LogUnavailable
from streams.kafka.lag import group_lag
from streams.kafka.settings import KafkaSettings
from tests.admission import Seen, committed, drained, eventually, produce, request, running, small_world
from tests.kiln import Kiln, small_deployment

TENANT, OTHER = "atelier", "bazaar"
KEY = SigningKey("2030-01", b"what only the atelier knows")
FREE = Quota(per_second=1000, burst=1000)


def wish(request_id: str, tenant: str = TENANT) -> GenerationRequest:
    return GenerationRequest.model_validate_json(request(tenant, request_id))


async def read(kafka: KafkaSettings, topic: str, partitions: int) -> list[Seen]:
    return await asyncio.to_thread(committed, kafka, topic, partitions)


def names(decisions: list[Seen]) -> list[tuple[str, str, str]]:
    return sorted((each["tenant"], each["request_id"], each["verdict"]) for each in map(Seen.json, decisions))


async def test_a_strangers_record_under_another_name_becomes_no_event_of_that_name(
    kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    (keys / TENANT).mkdir(parents=True)
    (keys / TENANT / KEY.key_id).write_bytes(KEY.secret + b"\n")
    world = small_world(catalogue, tenants={TENANT: FREE.model_copy(update={"signed": True})})
    async with running(kafka, world, "plain", signing_keys=keys) as service:
        await eventually(lambda: service.not_ready() is None)
        produce(kafka, catalogue.requests, [(TENANT.encode(), request(TENANT, each)) for each in ("r1", "r2", "r3")])
        thief = SigningKey(KEY.key_id, b"what the stranger made up")
        async with PromptClient(kafka, catalogue, signing=thief) as stranger:
            await stranger.submit([wish("r1"), wish("r2")])
        async with PromptClient(kafka, catalogue) as another:
            await another.submit([wish("r1", OTHER)])  # who need not sign
        await drained(kafka, catalogue)
        # By librdkafka's partitioner a record may be sent home first: refused before that, it stands once.
        dead = await read(kafka, catalogue.dead_letters, 1)
        assert [dict(each.headers)[HEADER_REASON] for each in dead] == [b"unproven"] * 5
        assert names(await read(kafka, catalogue.decisions, 2)) == [(OTHER, "r1", "accepted")]
        assert await read(kafka, catalogue.results, 2) == []
        # The ids are still the tenant's.
        async with PromptClient(kafka, catalogue, signing=KEY) as client:
            await client.submit([wish("r1"), wish("r3")])
        # Sent home, it keeps its signature.
        value = request(TENANT, "r2")
        away = 1 - partition_of(TENANT.encode(), 2)
        send_signed(kafka, catalogue, value, away)
        await drained(kafka, catalogue)
        assert names(await read(kafka, catalogue.decisions, 2)) == [
            (TENANT, "r1", "accepted"),
            (TENANT, "r2", "accepted"),
            (TENANT, "r3", "accepted"),
            (OTHER, "r1", "accepted"),
        ]
        assert len(await read(kafka, catalogue.dead_letters, 1)) == 5


def send_signed(kafka: KafkaSettings, catalogue: Catalogue, value: bytes, partition: int) -> None:
    """Signed with the clock of this machine, as a producer in another language would."""
    header = KEY.sign(value, catalogue.settings.prefix, time.time_ns() // 1_000_000)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(catalogue.requests, value, partition=partition, headers=[(HEADER_SIGNATURE, header)])
    assert producer.flush(30) == 0


async def test_nothing_is_decided_before_the_keys_are_mounted_and_a_new_one_counts_at_once(
    kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    world = small_world(catalogue, tenants={TENANT: FREE.model_copy(update={"signed": True})})
    async with (
        running(kafka, world, "plain", signing_keys=keys, refresh_seconds=0.05) as service,
        PromptClient(kafka, catalogue, signing=KEY) as client,
    ):
        await client.submit([wish("r1")])
        await eventually(lambda: "tenant 'atelier' must sign and has no key" in (service.not_ready() or ""))
        assert service.not_alive() is None
        (keys / TENANT).mkdir()
        (keys / TENANT / KEY.key_id).write_bytes(KEY.secret)
        await drained(kafka, catalogue)
    assert names(await read(kafka, catalogue.decisions, 2)) == [(TENANT, "r1", "accepted")]
    assert await read(kafka, catalogue.dead_letters, 1) == []


@pytest.fixture
async def gated(kafka: KafkaSettings, catalogue: Catalogue) -> Catalogue:
    own = Catalogue(catalogue.settings, Pools(pools=catalogue.pools), [TENANT, OTHER])
    assert len(await create_topics(kafka, own)) == 2
    return own


@asynccontextmanager
async def gate(kafka: KafkaSettings, catalogue: Catalogue, **settings: Any) -> AsyncIterator[GateService]:
    service = GateService(GateSettings(**{"health_port": 0, "refresh_seconds": 0.1} | settings), kafka, catalogue)
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await task


async def passed_on(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    topics = [catalogue.tenant_requests(tenant) for tenant in catalogue.own_topics]

    async def done() -> bool:
        return not any((await group_lag(kafka, catalogue.gate_group, topics)).values())

    await eventually(done, what="lag 0 of the gate")


async def test_a_tenant_speaks_in_its_own_topic_and_for_nobody_else(kafka: KafkaSettings, gated: Catalogue) -> None:
    world: World = small_world(gated)
    async with running(kafka, world, "plain"), gate(kafka, gated) as service:
        async with PromptClient(kafka, gated, own_topics=True) as client:
            await client.submit([wish("r1"), wish("r2"), wish("r1", OTHER)])
            with pytest.raises(LogUnavailable, match="missing"):
                await client.submit([wish("r1", "crowd")])
        # In the topic of the one, in the name of the other; and what nobody can read.
        values = [request(OTHER, "forged"), b"no request", request(TENANT, "keyed-otherwise")]
        produce(kafka, gated.tenant_requests(TENANT), [(b"another key", each) for each in values])
        # Within a transaction of the tenant's, whose marker must not be a lag for ever.
        transactional(kafka, gated.tenant_requests(TENANT), [encode(wish("r1")), request(TENANT, "r4")])
        await passed_on(kafka, gated)
        await drained(kafka, gated)
        assert await eventually(lambda: service._waiting is None)
        sample = service.metrics.registry.get_sample_value
        assert sample("kiln_gate_passed_total", {"tenant": TENANT}) == 5
    assert names(await read(kafka, gated.decisions, 2)) == [
        (TENANT, "keyed-otherwise", "accepted"),
        (TENANT, "r1", "accepted"),
        (TENANT, "r2", "accepted"),
        (TENANT, "r4", "accepted"),
        (OTHER, "r1", "accepted"),
    ]
    dead = [dict(each.headers) for each in await read(kafka, gated.dead_letters, 1)]
    assert sorted(each[HEADER_REASON] for each in dead) == [b"malformed", b"unproven"]
    assert {each[HEADER_TOPIC] for each in dead} == {gated.tenant_requests(TENANT).encode()}
    requests = await read(kafka, gated.requests, 2)
    home = partition_of(TENANT.encode(), 2)
    assert {each.partition for each in requests if each.json()["tenant"] == TENANT} == {home}
    assert all(HEADER_GATE in dict(each.headers) for each in requests)


def transactional(kafka: KafkaSettings, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, request(TENANT, "aborted"))
    producer.abort_transaction(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(30)


async def test_what_a_gate_did_not_see_acknowledged_another_passes_on_again_and_it_is_free(
    kafka: KafkaSettings, gated: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(kafka, small_world(gated), "plain"):
        async with PromptClient(kafka, gated, own_topics=True) as client:
            await client.submit([wish(f"r{number}") for number in range(20)])
        # A gate that writes and never commits, as one that is killed in between.
        with monkeypatch.context() as patched:
            patched.setattr(GateService, "_commit", _never)
            async with gate(kafka, gated, batch_max=5, stop_grace_seconds=0.1) as service:
                passed = {"tenant": TENANT}
                await eventually(
                    lambda: service.metrics.registry.get_sample_value("kiln_gate_passed_total", passed) == 5
                )
        async with gate(kafka, gated):
            await passed_on(kafka, gated)
        await drained(kafka, gated)
    assert len(await read(kafka, gated.requests, 2)) == 25
    assert len(await read(kafka, gated.decisions, 2)) == 20
    assert await read(kafka, gated.dead_letters, 1) == []


async def _never(*_: Any) -> None:
    await asyncio.Event().wait()


async def test_requests_that_cannot_be_written_are_waited_for_and_not_skipped(
    kafka: KafkaSettings, gated: Catalogue
) -> None:
    admin = AIOKafkaAdminClient(**kafka.client_options())
    await admin.start()
    try:
        async with gate(kafka, gated, send_timeout_seconds=1.0, send_backoff_seconds_max=0.1) as service:
            await eventually(lambda: service._waiting is None)
            await admin.delete_topics([gated.requests])
            async with PromptClient(kafka, gated, own_topics=True) as client:
                await client.submit([wish("r1")])
            await eventually(lambda: "requests cannot be written" in (service._failing or ""))
            await create_topics(kafka, gated)
            await passed_on(kafka, gated)
            assert service._failing is None
        # What was not acknowledged in time may stand twice.
        assert {each.json()["request_id"] for each in await read(kafka, gated.requests, 2)} == {"r1"}
    finally:
        await admin.close()


async def test_by_its_commands(
    kafka: KafkaSettings, kafka_env: dict[str, str], gated: Catalogue, tmp_path: Path
) -> None:
    (tmp_path / "tenants.yaml").write_text(
        f"tenants: {{{TENANT}: {{per_second: 1, burst: 9, topic: true, signed: true}},"
        f" {OTHER}: {{per_second: 1, burst: 9, topic: true}}}}"
    )
    (tmp_path / KEY.key_id).write_bytes(KEY.secret)
    environment = kafka_env | small_deployment(gated.settings.prefix, tmp_path)
    environment |= {
        "KILN_TENANTS": str(tmp_path / "tenants.yaml"),
        "KILN_GATE_HEALTH_PORT": "0",
        "KILN_SUBMIT_SIGN": str(tmp_path / KEY.key_id),
    }
    command = str(Path(sys.executable).with_name("kiln"))
    gate = await asyncio.create_subprocess_exec(command, "gate", env=environment, stderr=subprocess.PIPE)
    try:
        kiln = Kiln(environment)
        done = await kiln.here("submit", "a kiln", "--tenant", TENANT, "--request-id", "r1", "--own-topic")
        assert done.code == 0, done
        await passed_on(kafka, gated)
        assert (await all_lags(kafka, gated))[gated.gate_group] == {
            gated.tenant_requests(tenant): 0 for tenant in (TENANT, OTHER)
        }
        gate.send_signal(signal.SIGTERM)
        _, errors = await gate.communicate()
        assert gate.returncode == 0, errors.decode()
    finally:
        if gate.returncode is None:
            gate.kill()
            await gate.wait()
    (record,) = await read(kafka, gated.requests, 2)
    assert record.json()["request_id"] == "r1"
    headers = dict(record.headers)
    signature = parse_signature(headers[HEADER_SIGNATURE])
    assert signature is not None
    assert signature.matches(KEY.secret, gated.settings.prefix, record.value or b"")
    assert HEADER_GATE in headers

"""Admission as a whole, over a real broker: what its readers, its neighbours and its operators see."""

import asyncio
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from confluent_kafka import Producer

from admission.world import World
from schemas.codec import encode
from schemas.config import GenerationConfig
from schemas.errors import CommandError
from schemas.names import request_name
from schemas.partition import partition_of
from schemas.result import ConfigUsed, Failed
from schemas.tenancy import TenantRecord, job_key
from schemas.topics import Catalogue
from streams.kafka.lease import Lease
from streams.kafka.settings import KafkaSettings
from streams.service import AdmissionService
from tests.admission import (
    Seen,
    committed,
    decided_work,
    drained,
    eventually,
    produce,
    request,
    running,
    small_world,
    start,
    work_of,
)

TENANT = "atelier"


@pytest.fixture
def world(catalogue: Catalogue) -> World:
    return small_world(catalogue)


def send(kafka: KafkaSettings, catalogue: Catalogue, *ids: str, **fields: Any) -> None:
    """As one batch, so that an owner takes them together."""
    records = [(TENANT.encode(), request(TENANT, each, **fields)) for each in ids]
    produce(kafka, catalogue.requests, records, partitioner="murmur2_random", **{"linger.ms": 1000})


async def decisions(
    kafka: KafkaSettings, catalogue: Catalogue, number: int, *, of: "subprocess.Popen[str] | None" = None
) -> list[dict[str, Any]]:
    """Wait for so many, and not for those `of` a process that has ended."""

    async def enough() -> list[Seen]:
        if of is not None:
            assert of.poll() is None, f"it ended with {of.returncode}"
        seen = await asyncio.to_thread(committed, kafka, catalogue.decisions, catalogue.requests_partitions)
        return seen if len(seen) >= number else []

    return [each.json() for each in await eventually(enough, what=f"{number} decisions")]


async def page(service: AdmissionService, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{service.health.port}{path}") as response,
    ):
        return response.status, await response.text()


async def test_results_let_outstanding_fall(kafka: KafkaSettings, catalogue: Catalogue, world: World) -> None:
    home = partition_of(TENANT.encode(), catalogue.requests_partitions)

    def records(key: bytes) -> list[bytes | None]:
        return [each.value for each in committed(kafka, catalogue.tenants, 2) if each.key == key]

    async with running(kafka, world, "plain"):
        send(kafka, catalogue, "r1")
        (decision,) = await decisions(kafka, catalogue, 1)
        job = job_key(decision["job_id"])
        # Of one transaction with the decision, whose markers do not stand in all partitions at once.
        await eventually(lambda: records(job) and records(job)[-1] is not None, what="the job in its tenant's records")
        result = finished(decision["job_id"], world)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce(catalogue.results, b"no result of ours", b"x", partition=home)
        for _ in range(2):  # a result that stands twice counts once
            producer.produce(catalogue.results, encode(result), TENANT.encode(), partition=home)
        producer.flush(10)
        await eventually(lambda: records(job)[-1] is None, what="the tombstone of the job")

    def finished_too() -> bool:
        (*_, last) = records(TENANT.encode())
        record = TenantRecord.model_validate_json(last or b"")
        return (record.accepted, record.finished, record.gpu_seconds) == (1, 1, 0.25)

    await eventually(finished_too, what="the tenant's count of what finished")


def finished(job_id: str, world: World) -> Failed:
    config = world.configs.files["sketch"].versions[1]
    assert isinstance(config, GenerationConfig)
    return Failed.model_validate(
        {
            "tenant": TENANT,
            "request_id": "r1",
            "job_id": job_id,
            "finished_at": "2030-01-01T00:00:00Z",
            "config": ConfigUsed(
                name="sketch", version=1, hash=config.config_hash, model_digest=config.model.digest
            ).model_dump(),
            "gpu_seconds": 0.25,
            "code": "generation_error",
            "message": "for the test",
        }
    )


async def test_lag_is_zero_past_markers_at_the_end(kafka: KafkaSettings, catalogue: Catalogue, world: World) -> None:
    # cases KQ-13, FST-04: markers are never delivered, and an aborted record leaves two offsets behind
    async with running(kafka, world, "plain"):
        send(kafka, catalogue, "r1")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": catalogue.requests})
        producer.init_transactions(30)
        for partition in range(2):
            producer.begin_transaction()
            producer.produce(catalogue.requests, request(TENANT, "aborted"), partition=partition)
            producer.flush(30)
            producer.abort_transaction(30)
        await drained(kafka, catalogue)
        assert [each["request_id"] for each in await decisions(kafka, catalogue, 1)] == ["r1"]


async def test_a_cancel_known_before_its_request_is_decided_here(
    kafka: KafkaSettings, catalogue: Catalogue, world: World
) -> None:
    produce(kafka, catalogue.cancels, [(request_name(TENANT, "late"), b"{}")])
    async with running(kafka, world, "plain"):
        send(kafka, catalogue, "late", "r1")
        got = {each["request_id"]: each["verdict"] for each in await decisions(kafka, catalogue, 2)}
    # The request was appended after its cancel: a cancel reaches only what was there.
    assert got == {"late": "accepted", "r1": "accepted"}
    send(kafka, catalogue, "early")
    produce(kafka, catalogue.cancels, [(request_name(TENANT, "early"), b"{}")])
    async with running(kafka, world, "plain"):
        got = {each["request_id"]: each["verdict"] for each in await decisions(kafka, catalogue, 3)}
    assert got["early"] == "cancelled"
    assert [each.json()["status"] for each in committed(kafka, catalogue.results, 2)] == ["cancelled"]


async def test_a_missing_topic_is_waited_for_and_nobody_is_refused(
    kafka: KafkaSettings, catalogue: Catalogue, world: World
) -> None:
    topic = catalogue.work("a", "bulk")
    admin = AIOKafkaAdminClient(**kafka.client_options())
    await admin.start()
    try:
        await admin.delete_topics([topic])
        await eventually(lambda: _absent(admin, topic))
        async with running(kafka, world, "plain") as service:
            send(kafka, catalogue, "r1", priority="bulk")
            status, text = await eventually(lambda: _page_with(service, "/readyz", topic))
            assert status == 503
            assert "kiln topics create" in text
            assert (await page(service, "/livez"))[0] == 200  # a named wait: a restart would not bring the topic
            assert committed(kafka, catalogue.decisions, 2) == []
            await admin.create_topics([NewTopic(topic, catalogue.pools["a"].partitions, 1)])
            (decision,) = await decisions(kafka, catalogue, 1)
            assert decision["verdict"] == "accepted"
            await eventually(lambda: len(work_of(kafka, catalogue)) == 1)
            assert await eventually(lambda: _page_with(service, "/readyz", "ok")) == (200, "ok\n")
            status, text = await page(service, "/metrics")
            assert 'kiln_admission_decisions_total{code="",verdict="accepted"} 1.0' in text
    finally:
        await admin.close()


async def _absent(admin: AIOKafkaAdminClient, topic: str) -> bool:
    return topic not in await admin.list_topics()


async def _page_with(service: AdmissionService, path: str, text: str) -> Any:
    try:
        answer = await page(service, path)
    except (aiohttp.ClientError, AssertionError):
        return None  # not listening yet
    return answer if text in answer[1] else None


async def test_a_fenced_owner_that_is_still_assigned_opens_again(
    kafka: KafkaSettings, catalogue: Catalogue, world: World
) -> None:
    # cases AIO-10, AIO-11: a broker's own time-out and a successor's fence look alike
    async with running(kafka, world, "plain") as service:
        send(kafka, catalogue, "r1")
        await decisions(kafka, catalogue, 1)
        await drained(kafka, catalogue)  # nothing is left to write that would have the owner meet the intruder half way
        sample = service.metrics.registry.get_sample_value
        home = {"partition": str(partition_of(TENANT.encode(), 2))}
        before = sample("kiln_admission_lease_voids_total", home) or 0
        for partition in range(2):
            intruder = Lease(
                kafka,
                transactional_id=catalogue.admission_transactional_id(partition),
                group=catalogue.admission_group,
                log=[TopicPartition(catalogue.decisions, partition)],
            )
            await intruder.open(lambda _: None)
            await intruder.close()
        send(kafka, catalogue, "r2")
        got = await decisions(kafka, catalogue, 2)
        assert sorted(each["request_id"] for each in got) == ["r1", "r2"]
        await drained(kafka, catalogue)
        assert sample("kiln_admission_lease_voids_total", home) == before + 1
        await eventually(lambda: service.not_ready() is None)


async def test_decisions_not_emitted_are_produced_by_the_next_owner(
    kafka: KafkaSettings, catalogue: Catalogue, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streams.emission import Emission

    emit = Emission.emit

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    one = start(kafka, world, "plain")
    await eventually(lambda: one.service.not_ready() is None)  # the opening emits too
    monkeypatch.setattr(Emission, "emit", never)
    send(kafka, catalogue, "r1", "r2", "r3")
    decided = await decisions(kafka, catalogue, 3)
    assert work_of(kafka, catalogue) == []
    await one.kill()
    monkeypatch.setattr(Emission, "emit", emit)
    async with running(kafka, world, "plain"):
        await eventually(lambda: len(work_of(kafka, catalogue)) == 3)
    assert {record.value for _, record in work_of(kafka, catalogue)} == {decided_work(each) for each in decided}


async def test_an_open_transaction_of_a_producer_stalls_and_loses_nothing(
    kafka: KafkaSettings, catalogue: Catalogue, world: World
) -> None:
    # case KQ-14
    home = partition_of(TENANT.encode(), 2)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{catalogue.requests}-open"}
    )
    producer.init_transactions(30)
    async with running(kafka, world, "plain") as service:
        producer.begin_transaction()
        producer.produce(catalogue.requests, request(TENANT, "r1"), TENANT.encode(), partition=home)
        producer.flush(30)
        send(kafka, catalogue, "r2")
        await eventually(lambda: service.not_ready() is None)
        assert committed(kafka, catalogue.decisions, 2) == []
        producer.commit_transaction(30)
        got = await decisions(kafka, catalogue, 2)
        assert [each["request_id"] for each in got] == ["r1", "r2"]
        await drained(kafka, catalogue)
        assert service.not_alive() is None


async def test_a_port_that_is_taken_is_said_with_the_cure(
    kafka: KafkaSettings, catalogue: Catalogue, world: World
) -> None:
    async with running(kafka, world, "plain") as service:
        await eventually(lambda: service.not_ready() is None)
        second = start(kafka, world, "plain", health_port=service.health.port)
        with pytest.raises(CommandError, match="KILN_ADMISSION_SERVICE_HEALTH_PORT"):
            await second.task


@pytest.fixture
def environment(kafka_env: dict[str, str], catalogue: Catalogue, tmp_path: Path) -> dict[str, str]:
    """The deployment of `catalogue`, in files."""
    pools = tmp_path / "pools.yaml"
    pools.write_text(
        "pools: {default: {gpu_product: CPU, vram_bytes: 8589934592, price_usd_per_hour: 0,"
        " replicas_max: 2, partitions: 4}}"
    )
    return kafka_env | {
        "KILN_TOPICS_PREFIX": catalogue.settings.prefix,
        "KILN_TOPICS_REQUESTS_PARTITIONS": "2",
        "KILN_POOLS": str(pools),
        "KILN_ADMISSION_SERVICE_HEALTH_PORT": "0",
    }


@contextmanager
def kiln(*arguments: str, environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    command = [str(Path(sys.executable).with_name("kiln")), *arguments]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield child
    except Exception as error:
        child.kill()
        error.add_note(f"{shlex.join(arguments)} said: {child.communicate()[1]}")
        raise
    finally:
        child.kill()
        child.wait()


@pytest.fixture
async def created(environment: dict[str, str]) -> None:
    with kiln("topics", "create", environment=environment) as child:
        _, errors = await asyncio.to_thread(child.communicate, timeout=180)
        assert child.returncode == 0, errors


@pytest.mark.usefixtures("created")
@pytest.mark.parametrize("intake", ["faust", "plain"])
async def test_kiln_admission_run_decides_and_stops_on_sigterm(
    kafka: KafkaSettings, catalogue: Catalogue, environment: dict[str, str], intake: str
) -> None:
    chosen = environment | {"KILN_ADMISSION_SERVICE_INTAKE": intake}
    with kiln("admission", "run", environment=chosen) as child:
        send(kafka, catalogue, "r1")
        (decision,) = await decisions(kafka, catalogue, 1, of=child)
        assert decision["verdict"] == "accepted", decision
        await drained(kafka, catalogue)
        child.send_signal(signal.SIGTERM)
        output, errors = await asyncio.to_thread(child.communicate, timeout=180)
        assert (child.returncode, output) == (0, ""), errors


@pytest.mark.usefixtures("created")
async def test_a_log_that_lost_what_is_needed_stops_with_its_own_status(
    kafka: KafkaSettings, catalogue: Catalogue, environment: dict[str, str]
) -> None:
    # case FST-20
    send(kafka, catalogue, "r1", "r2")
    with kiln("admission", "run", environment=environment) as child:
        await decisions(kafka, catalogue, 2, of=child)
        await drained(kafka, catalogue)
        child.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(child.wait, 180) == 0
    home = partition_of(TENANT.encode(), 2)
    admin = AIOKafkaAdminClient(**kafka.client_options())
    await admin.start()
    await admin.delete_records({TopicPartition(catalogue.decisions, home): RecordsToDelete(before_offset=-1)})
    await admin.close()
    with kiln("admission", "run", environment=environment) as child:
        _, errors = await asyncio.to_thread(child.communicate, timeout=180)
        assert child.returncode == 3, errors
        assert "the decisions log was truncated; bring it back, or accept the loss" in " ".join(errors.split())
    send(kafka, catalogue, "r3")
    with kiln("admission", "run", "--accept-loss", environment=environment) as child:
        got = await decisions(kafka, catalogue, 1, of=child)
        assert [each["request_id"] for each in got] == ["r3"]
        await drained(kafka, catalogue)


@pytest.mark.usefixtures("created")
async def test_without_a_broker_it_says_so(environment: dict[str, str]) -> None:
    nowhere = environment | {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    with kiln("admission", "run", environment=nowhere) as child:
        _, errors = await asyncio.to_thread(child.communicate, timeout=180)
    assert child.returncode == 1
    assert "127.0.0.1:1 does not answer" in errors
    assert "Traceback" not in errors

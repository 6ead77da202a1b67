"""Every process with its own principal and the ACLs that are said to be enough, on a broker that refuses all else."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pydantic import SecretStr
from rich.console import Console

from gpu_consumer.consumer import GpuConsumer
from gpu_consumer.telling import telling
from infra.broker import process, server
from infra.broker.profile import HOST, server_properties
from infra.broker.settings import BrokerSettings
from schemas.pools import Pools
from schemas.request import GenerationRequest
from schemas.topics import Catalogue
from streams.acls import Acl, roles
from streams.client import PromptClient
from streams.commands.lag import all_lags
from streams.kafka.admin import check_topics, create_topics, offsets_retention_minutes
from streams.kafka.errors import LogUnavailable
from streams.kafka.groups import INDEX_PROTOCOL
from streams.kafka.renewal import renew
from streams.kafka.settings import KafkaSettings
from tests.admission import eventually, request, running, small_world
from tests.integration.gpu_pool import GpuPool
from tests.integration.test_scaler import scaler
from tests.integration.test_who_may_speak import gate
from tests.kafka import small_catalogue
from tests.ports import free_port

TENANT, OTHER = "atelier", "bazaar"
_TYPES = {"cluster": "BROKER"}  # as this client calls it
_PASSWORD = "for a test on the loopback"
_LOGGER = "\nlogger.acl.name = kafka.authorizer.logger\nlogger.acl.level = info\n"  # which tells what is denied


def principal(role: str) -> str:
    return role.replace("/", "-")


class Guarded:
    """A broker where the plain listener may do everything, and the other one what each principal may."""

    def __init__(self, plain: KafkaSettings, address: str, logs: Path) -> None:
        self.plain = plain
        self._address = address
        self._logs = logs
        small = small_catalogue("acl")
        self.catalogue = Catalogue(small.settings, Pools(pools=small.pools), [TENANT, OTHER])

    def kafka(self, role: str) -> KafkaSettings:
        return self.plain.model_copy(
            update={
                "bootstrap_servers": self._address,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": principal(role),
                "sasl_plain_password": SecretStr(_PASSWORD),
            }
        )

    def allow(self, given: Mapping[str, Iterable[Acl]]) -> None:
        admin = AdminClient({"bootstrap.servers": self.plain.bootstrap_servers})
        bindings = [
            AclBinding(
                ResourceType[_TYPES.get(acl.resource, acl.resource.upper().replace("-", "_"))],
                acl.name or "kafka-cluster",
                ResourcePatternType.PREFIXED if acl.prefixed else ResourcePatternType.LITERAL,
                f"User:{principal(role)}",
                "*",
                AclOperation[operation.upper().replace("-", "_")],
                AclPermissionType.ALLOW,
            )
            for role, acls in given.items()
            for acl in acls
            for operation in acl.operations
        ]
        for done in admin.create_acls(bindings).values():
            done.result(30)

    def denied(self) -> set[tuple[str, str]]:
        """(principal, what) of whatever was refused."""
        lines = [line for log in self._logs.iterdir() for line in log.read_text().splitlines()]
        found = [
            re.search(r"Principal = User:(\S+) is Denied operation = (.*) with resourceRefCount", line)
            for line in lines
        ]
        return {(each[1], each[2]) for each in found if each}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    port = free_port()
    names = ["admission", "gpu-consumer/a", "gate", "operator", "result-reader", "scaler", f"producer/{TENANT}"]
    users = " ".join(f'user_{principal(name)}="{_PASSWORD}"' for name in names)
    properties_of, command_of = server_properties, process.java_command

    def properties(*given: Any) -> dict[str, str]:
        made = properties_of(*given)
        login = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return made | {
            "listeners": f"{made['listeners']},SASL_PLAINTEXT://{HOST}:{port}",
            "advertised.listeners": f"{made['advertised.listeners']},SASL_PLAINTEXT://{HOST}:{port}",
            "listener.security.protocol.map": f"{made['listener.security.protocol.map']},SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{login} required {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def command(*given: Any, **named: Any) -> list[str]:
        made = command_of(*given, **named)
        stock = Path(process.__file__).with_name("log4j2.properties")
        mine = home / "log4j2.properties"
        mine.write_text(stock.read_text() + _LOGGER)
        return [option.replace(str(stock), str(mine)) for option in made]

    settings = BrokerSettings(home=home)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server, "server_properties", properties)
        patched.setattr(process, "java_command", command)
        started = server.up(settings, Console(stderr=True), tied=True)
    try:
        plain = KafkaSettings(bootstrap_servers=started.bootstrap)
        yield Guarded(plain, f"{HOST}:{port}", settings.broker_directory / "log")
    finally:
        server.down(settings)


def wish(request_id: str, tenant: str) -> GenerationRequest:
    return GenerationRequest.model_validate_json(request(tenant, request_id))


def _telling(pool: GpuPool, consumer: GpuConsumer) -> AbstractAsyncContextManager[object]:
    """As its service does."""
    return telling(pool.kafka, pool.catalogue.uptime, consumer.spending, consumer.incarnation, period_seconds=3600)


async def test_each_process_has_what_it_needs_and_nobody_more(guarded: Guarded, tmp_path: Path) -> None:
    catalogue, own = guarded.catalogue, f"producer/{TENANT}"
    await asyncio.to_thread(guarded.allow, roles(catalogue))
    await create_topics(guarded.kafka("operator"), catalogue)
    producer = PromptClient(guarded.kafka(own), catalogue, own_topics=True, results=False)
    async with (
        running(guarded.kafka("admission"), small_world(catalogue), "plain"),
        gate(guarded.kafka("gate"), catalogue),
        PromptClient(guarded.kafka("result-reader"), catalogue) as reader,
        producer,
        scaler(GpuPool(guarded.kafka("scaler"), catalogue, tmp_path)) as (_, keda),
    ):
        pool = GpuPool(guarded.kafka("gpu-consumer/a"), catalogue, tmp_path)
        async with (
            pool.consumer() as running_one,
            _telling(pool, running_one.consumer),
            pool.telling_steps(running_one),
            PromptClient(guarded.kafka("result-reader"), catalogue, progress=True) as watching,
        ):
            running_one.engine.gate.clear()
            await producer.submit([wish("r1", TENANT)])
            await eventually(watching.news, what="how far it is")
            running_one.engine.gate.set()
            (result,) = [each async for each in reader.follow([(TENANT, "r1")], 60)]
            assert result.status == "succeeded"

            async def hours_told() -> bool:
                return bool(await GpuPool(guarded.plain, catalogue, tmp_path).read(catalogue.uptime, 1))

            await eventually(hours_told, what="the hours of the consumer")

            async def idle() -> bool:
                lags = await all_lags(guarded.kafka("operator"), catalogue)
                return not any(lag for topics in lags.values() for lag in topics.values())

            await eventually(idle, what="lag 0 of every group")
            await eventually(lambda: keda.pushed and not keda.pushed[-1], what="KEDA hears that nothing is left")

        async def renewed() -> bool:
            return await renew(guarded.kafka("admission"), catalogue.gpu_group("a"), [INDEX_PROTOCOL]) == "renewed"

        await eventually(renewed, what="the group to be renewed, when its consumer has left it")
        assert await check_topics(guarded.kafka("operator"), catalogue) == []
        assert await offsets_retention_minutes(guarded.kafka("operator")) > 0
        assert guarded.denied() == set()
        # And nothing more: not another tenant's topic, nor the one to which all are passed on, nor results.
        with pytest.raises(LogUnavailable, match=r"requests\.bazaar is missing"):
            await producer.submit([wish("r2", OTHER)])
        async with PromptClient(guarded.kafka(own), catalogue, results=False) as forger:
            with pytest.raises(LogUnavailable, match="requests is missing"):
                await forger.submit([wish("r2", OTHER)])
        with pytest.raises(LogUnavailable, match="results is missing"):
            await PromptClient(guarded.kafka(own), catalogue).__aenter__()
        for topic in (catalogue.requests, catalogue.tenant_requests(OTHER), catalogue.work("a", "bulk")):
            with pytest.raises(TopicAuthorizationFailedError):
                await (await producer._producer_of(set())).send_and_wait(topic, request(OTHER, "forged"))
    assert {who for who, _ in guarded.denied()} == {principal(own)}

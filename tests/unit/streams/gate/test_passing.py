"""What the gate makes of a record in a tenant's own topic."""

import json
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from admission.stages.decode import Named, decode
from schemas.dead_letter import HEADER_MESSAGE, HEADER_OFFSET, HEADER_PARTITION, HEADER_REASON, HEADER_TOPIC
from schemas.partition import partition_of
from schemas.pools import Pools
from schemas.signature import HEADER_SIGNATURE
from schemas.topics import GATE_BYTES_MAX, REQUEST_BYTES_MAX, Catalogue
from streams.gate.passing import HEADER_GATE, in_turns, written
from streams.kafka.batches import HEADER_UNREADABLE
from streams.kafka.log import Record
from tests.unit.admission.scene import NOW_MS, PARTITIONS, TENANT, make_world, request

CATALOGUE = make_world().catalogue
TOPIC = CATALOGUE.tenant_requests(TENANT)


def record(value: bytes | None, key: bytes | None = None, headers: Any = (), *, offset: int = 7) -> Record:
    return ConsumerRecord(
        topic=TOPIC, partition=2, offset=offset, timestamp=NOW_MS, timestamp_type=1, key=key, value=value,
        checksum=None, serialized_key_size=0, serialized_value_size=0, headers=tuple(headers),
    )  # fmt: skip


def body(**changes: Any) -> bytes:
    return json.dumps(request(**changes), indent=1).encode()


def test_a_request_passes_as_it_came_to_its_tenants_partition() -> None:
    value = body()
    output, reason = written(record(value, b"any key", [("trace", b"1"), ("none", None)]), TENANT, CATALOGUE)
    assert reason is None
    assert (output.topic, output.partition) == (CATALOGUE.requests, partition_of(TENANT.encode(), PARTITIONS))
    assert (output.key, output.value) == (TENANT.encode(), value)
    assert output.headers == (("trace", b"1"), ("none", b""), (HEADER_GATE, f"{TOPIC}/2/7".encode()))


def test_a_body_with_a_flaw_beside_its_name_passes_and_is_admissions_to_refuse() -> None:
    output, reason = written(record(body()[:-1] + b',"seed":NaN}'), TENANT, CATALOGUE)
    assert (output.topic, reason) == (CATALOGUE.requests, None)


@pytest.mark.parametrize(
    ("value", "headers", "reason", "message"),
    [
        (body(tenant="ivan"), (), "unproven", "the tenant 'ivan' speaks in the topic of 'alice'"),
        (body(tenant="ivan")[:-1] + b',"seed":NaN}', (), "unproven", "the tenant 'ivan' speaks"),
        (None, (), "malformed", "no value"),
        (b"no json", (), "malformed", "not JSON"),
        (body(tenant=7), (), "malformed", "tenant"),
        (body(), ((HEADER_UNREADABLE, b"its batch is broken"),), "malformed", "its batch is broken"),
        (b"[" * (REQUEST_BYTES_MAX + 1), (), "malformed", "send at most"),
    ],
)
def test_what_is_not_the_tenants_or_nobodys_is_a_dead_letter_with_its_own_place(
    value: bytes | None, headers: Any, reason: str, message: str
) -> None:
    output, said = written(record(value, None, headers), TENANT, CATALOGUE)
    assert said == reason
    assert output.topic == CATALOGUE.dead_letters
    assert output.value == (b"" if value is None else value)
    told = dict(output.headers)
    assert told[HEADER_REASON] == reason.encode()
    assert message in told[HEADER_MESSAGE].decode()
    assert (told[HEADER_TOPIC], told[HEADER_PARTITION], told[HEADER_OFFSET]) == (TOPIC.encode(), b"2", b"7")


def test_all_that_the_topic_takes_has_room_in_requests() -> None:
    catalogue = Catalogue(CATALOGUE.settings, Pools(pools=CATALOGUE.pools), [TENANT])
    (spec,) = [each for each in catalogue.specs() if each.name == TOPIC]
    assert int(spec.config["max.message.bytes"]) == REQUEST_BYTES_MAX - GATE_BYTES_MAX
    value = body(negative_prompt="x" * (REQUEST_BYTES_MAX - GATE_BYTES_MAX - 300))
    output, reason = written(record(value), TENANT, CATALOGUE)
    assert reason is None
    size = len(output.key or b"") + len(value) + sum(len(name) + len(content) for name, content in output.headers)
    assert size < REQUEST_BYTES_MAX - 1024


def test_where_headers_have_no_room_the_signature_stays_and_the_rest_goes() -> None:
    """A batch that was compressed may unfold to more than its topic takes."""
    value = body(negative_prompt="x" * (REQUEST_BYTES_MAX - 20_000))
    headers = [("big", b"x" * 30_000), (HEADER_SIGNATURE, b"v1 k 1 00"), ("more", b"1")]
    output, reason = written(record(value, None, headers), TENANT, CATALOGUE)
    assert reason is None
    assert [name for name, _ in output.headers] == [HEADER_SIGNATURE, HEADER_GATE]


def test_what_has_no_room_at_all_is_a_dead_letter() -> None:
    value = body(negative_prompt="x" * (REQUEST_BYTES_MAX - 1000))
    assert isinstance(decode(value), Named)
    output, reason = written(record(value), TENANT, CATALOGUE)
    assert (output.topic, reason) == (CATALOGUE.dead_letters, "malformed")


def test_a_flooded_topic_takes_turns_with_the_others() -> None:
    flood, quiet = TopicPartition("flood", 0), TopicPartition("quiet", 0)
    fetched = {
        flood: [record(b"f", offset=number) for number in range(10)],
        quiet: [record(b"q", offset=number) for number in range(3)],
    }
    turns = list(in_turns(fetched, 4))
    assert [(each.value, each.offset) for each in turns[0]] == [(b"f", 0), (b"f", 1), (b"q", 0), (b"q", 1)]
    for value, number in ((b"f", 10), (b"q", 3)):
        assert [each.offset for turn in turns for each in turn if each.value == value] == list(range(number))
    assert list(in_turns({}, 4)) == []
    assert [len(turn) for turn in in_turns({TopicPartition(str(n), 0): [record(b"x")] for n in range(9)}, 4)] == [9]

"""Who is in a consumer group now, and what each has of it, as the group's coordinator tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import for_code

# How the consumers of a pool share it, by the name that their group knows. See gpu_consumer/assignor.py.
INDEX_PROTOCOL = "kiln-index-sticky"


@dataclass(frozen=True, slots=True)
class Member:
    """`id` begins with the client's id; `host` is the address that it comes from, as the broker sees it."""

    id: str
    host: str
    assignment: bytes  # as its leader wrote it; empty while the group shares its partitions out anew

    def has(self, topic: str, partition: int) -> bool:
        if not self.assignment:
            return False
        assigned = ConsumerProtocolMemberAssignment.decode(self.assignment).partitions()
        return TopicPartition(topic, partition) in assigned


async def members_of(admin: AIOKafkaAdminClient, groups: Sequence[str]) -> Mapping[str, Sequence[Member]]:
    """The members of each group now. A group that nobody ever joined has none. Raises KafkaError."""
    found: dict[str, Sequence[Member]] = {}
    for response in await admin.describe_consumer_groups(list(groups)):
        for code, group, _, _, _, members, *_ in response.groups:
            if code:
                raise for_code(code)(group)
            found[group] = [
                Member(member, host.removeprefix("/"), bytes(assignment or b""))
                for member, _, host, _, assignment in members
            ]
    return found

"""Keeps the offsets of a group that sleeps, which the broker would forget.

A group without members loses all its offsets offsets.retention.minutes after its last member left, and lag then counts
what was consumed long ago: a pool at rest wakes for nothing. To commit them again does not help, for the broker counts
from the last change of the group and not from the last commit (KIP-211; tried with Kafka 4.3.1). To join the group and
to leave it at once does, and it writes no offset, so none can move back, whoever commits at that moment.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, get_args

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.errors import MemberIdRequired, for_code
from aiokafka.protocol.group import JoinGroupRequest, LeaveGroupRequest

from schemas.errors import told
from streams.kafka.clients import admin_client
from streams.kafka.groups import Member, members_of
from streams.kafka.lag import committed_offsets
from streams.kafka.settings import KafkaSettings

_LOG = logging.getLogger(__name__)
_CLIENT = "renewal"

Renewal = Literal["renewed", "in use", "nothing committed"]
OUTCOMES: tuple[str, ...] = (*get_args(Renewal), "failed")


def is_consumer(member: Member) -> bool:
    """Whether it is one that takes work: who only renews is in a group for a moment, and takes nothing."""
    return f"-{_CLIENT}-" not in member.id


class Renewals:
    """Renews groups again and again. `protocols`: the names of every assignor that a consumer of the groups may bring,
    since the broker lets nobody join a group who shares none with a member."""

    def __init__(
        self,
        kafka: KafkaSettings,
        groups: Sequence[str],
        protocols: Sequence[str],
        *,
        seconds: float,
        renewed: Callable[[str, str], None] = lambda group, how: None,
    ) -> None:
        self._kafka = kafka.model_copy(update={"client_id": f"{kafka.client_id}-{_CLIENT}"})
        self._groups = groups
        self._protocols = protocols
        self._seconds = seconds
        self._renewed = renewed

    @asynccontextmanager
    async def running(self, mine: Callable[[], bool]) -> AsyncIterator[None]:
        """Renew every `seconds`, the first time after a tenth of them, and after trouble as soon; where `mine` says no,
        another process does it."""
        task = asyncio.create_task(self._run(mine), name="renew offsets")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _run(self, mine: Callable[[], bool]) -> None:
        wait = self._seconds / 10
        while True:
            await asyncio.sleep(wait)
            failed = mine() and "failed" in (await self.once()).values()
            wait = self._seconds / 10 if failed else self._seconds

    async def once(self) -> Mapping[str, str]:
        """What came of each group, of OUTCOMES."""
        done: dict[str, str] = {}
        for group in self._groups:
            try:
                async with asyncio.timeout(2 * self._kafka.request_timeout_ms / 1000):
                    done[group] = await renew(self._kafka, group, self._protocols)
            except Exception as error:  # nothing waits for it, and the others are to be renewed all the same
                _LOG.warning("the offsets of %s were not renewed: %s", group, told(error))
                done[group] = "failed"
            self._renewed(group, done[group])
        return done


async def renew(kafka: KafkaSettings, group: str, protocols: Sequence[str]) -> Renewal:
    """Let the group's offsets be kept for another offsets.retention.minutes, if nobody is in it.

    A consumer that joins at the same moment waits for one rebalance more, some seconds; it gets everything. Takes
    group.initial.rebalance.delay.ms, 3 s as Kafka comes. Raises KafkaError.
    """
    admin = admin_client(kafka)
    await admin.start()
    try:
        committed = await committed_offsets(admin, group)
        if not any(each.offset >= 0 for each in committed.values()):
            return "nothing committed"
        if (await members_of(admin, [group]))[group]:
            return "in use"
        await _visit(admin, kafka, group, await admin.find_coordinator(group), protocols)
        return "renewed"
    finally:
        await admin.close()


async def _visit(
    admin: AIOKafkaAdminClient, kafka: KafkaSettings, group: str, coordinator: int, protocols: Sequence[str]
) -> None:
    """Join, and leave before anything is shared out: whoever joined meanwhile begins again without us."""
    nothing = ConsumerProtocolMemberMetadata(0, [], b"").encode()
    member = ""
    try:
        while True:
            joined = await admin._send_request(
                JoinGroupRequest(
                    group,
                    kafka.session_timeout_ms,
                    kafka.session_timeout_ms,
                    member,
                    None,
                    "consumer",
                    [(protocol, nothing) for protocol in protocols],
                ),
                coordinator,
            )
            asked_anew = not member and joined.error_code == MemberIdRequired.errno
            member = joined.member_id
            if not asked_anew:
                break
        if joined.error_code:
            raise for_code(joined.error_code)(group)
    finally:
        if member:
            await admin._send_request(LeaveGroupRequest(group, member), coordinator)

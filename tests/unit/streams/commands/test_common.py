"""What a cluster refuses is a sentence, and not that it does not answer."""

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, KafkaError

from schemas.errors import CommandError
from streams.commands.common import run


async def fails(error: KafkaError) -> None:
    raise error


def test_what_may_not_be_done_names_the_command_that_tells_who_may() -> None:
    with pytest.raises(CommandError, match=r"^Kafka does not allow it \(group authorization failed: g\); `kiln acls`"):
        run(fails(GroupAuthorizationFailedError("g")))


def test_a_cluster_that_does_not_answer_is_said_in_words() -> None:
    with pytest.raises(CommandError, match=r"^Kafka does not answer \(Unable to bootstrap\); start one"):
        run(fails(KafkaConnectionError("Unable to bootstrap")))

"""Errors of libraries, as our sentences tell them."""

from urllib.error import URLError

import pytest
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    KafkaConnectionError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
)

from schemas.errors import told


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GroupCoordinatorNotAvailableError(), "group coordinator not available"),
        (TopicAuthorizationFailedError("kiln.requests"), "topic authorization failed: kiln.requests"),
        (KafkaConnectionError("Unable to bootstrap from h:1"), "Unable to bootstrap from h:1"),
        (NodeNotReadyError("node 1\n is not ready"), "node 1 is not ready"),
        (FileNotFoundError(2, "No such file or directory", "/nonexistent"), "No such file or directory"),
        (URLError(ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
        (
            KafkaConnectionError("Unable to bootstrap from [('127.0.0.1', 1, <AddressFamily.AF_INET: 2>)]"),
            "Unable to bootstrap from [127.0.0.1:1]",
        ),
        (ConnectionRefusedError(111, "Connect call failed"), "Connect call failed"),
        (TimeoutError(), "no answer in time"),
        (TimeoutError("10 s have passed"), "10 s have passed"),
        (ValueError("a ValueError: of ours"), "a ValueError: of ours"),
    ],
)
def test_people_are_told_what_happened_and_no_class(error: Exception, words: str) -> None:
    assert told(error) == words

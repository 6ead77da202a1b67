"""Errors of talking to Kafka, grouped by what the caller does with them."""

from aiokafka import TopicPartition


class StreamError(Exception):
    """Base of this package."""


# Do not start.


class ConnectionSettingsError(StreamError):
    """The settings name no broker, or contradict each other. The process must not start."""


# Try again, with back-off.


class LeaseVoid(StreamError):
    """The outcome of the last transaction is unknown, or another owner has fenced this one; nothing tells which.

    Drop everything remembered under this lease, close it, and open another only while the partition is still
    assigned and the consumer is a live member of its group. A lease of a partition that is gone is dropped in silence.
    """


class LogUnavailable(StreamError):
    """A log could not be read now: no broker answers, or no progress was made in time. Read it again from its start."""


# Stop, and say so: another try gives the same, and going on would skip records in silence.


class LogTruncated(StreamError):
    """A log does not hold the offset it was asked for. The records are lost; only an operator may accept that."""

    def __init__(self, partition: TopicPartition, asked: int, first: int, end: int) -> None:
        super().__init__(
            f"{partition.topic}[{partition.partition}] holds offsets {first} to {end}, not {asked}; "
            "raise its retention, or tell this process to accept the loss"
        )
        self.partition = partition
        self.asked = asked
        self.first = first
        self.end = end


class RecordUnreadable(StreamError):
    """A record cannot be fetched. The reader stays in front of it; what to do with it is the caller's to decide."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(f"{partition.topic}[{partition.partition}] offset {offset} cannot be read: {reason}")
        self.partition = partition
        self.offset = offset


class ViewFailed(StreamError):
    """A view cannot go on, for the reason in `__cause__`. It will not recover: end the process."""

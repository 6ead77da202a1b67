"""What becomes of a record in a tenant's own topic. Pure.

Who may write to that topic is Kafka's to say, by an ACL: so a record there is its tenant's, or lies.
"""

from collections.abc import Iterator, Mapping, Sequence

from aiokafka import TopicPartition

from admission.arrival import Arrival
from admission.stages.decode import Malformed, decode
from admission.verdict import DeadLetter
from schemas.partition import partition_of
from schemas.topics import Catalogue
from streams.batch import dead_letter, forwarded, why_unreadable
from streams.kafka.log import Record
from streams.kafka.sending import Output
from streams.requests import arrival_of

HEADER_GATE = "kiln-gate"  # tells a person where a request came in; nobody believes it


def passed(record: Record, tenant: str, catalogue: Catalogue) -> Output | DeadLetter:
    """On its way to requests: value and headers as they came, the key that its partition is found by. Or why not."""
    arrival = arrival_of(record)
    if (why := why_unreadable(arrival)) is not None:
        return DeadLetter("malformed", why)
    named = decode(arrival.value)
    if isinstance(named, Malformed):
        return DeadLetter("malformed", named.message)
    if named.tenant != tenant:
        return DeadLetter(
            "unproven", f"the tenant {named.tenant!r} speaks in the topic of {tenant!r}; write to that of its own"
        )
    key = tenant.encode()
    source = f"{record.topic}/{record.partition}/{record.offset}".encode()
    onward = Arrival(arrival.partition, arrival.offset, arrival.appended_ms, key, arrival.value, arrival.headers)
    home = partition_of(key, catalogue.requests_partitions)
    return forwarded(onward, home, (HEADER_GATE, source), catalogue) or DeadLetter(
        "malformed", f"a record of {arrival.record_bytes} bytes has no room in requests; send fewer"
    )


def written(record: Record, tenant: str, catalogue: Catalogue) -> tuple[Output, str | None]:
    """The record to be written for it, and the reason where that is a dead letter."""
    onward = passed(record, tenant, catalogue)
    if isinstance(onward, Output):
        return onward, None
    return dead_letter(arrival_of(record), onward, catalogue, record.topic), onward.reason


def in_turns(fetched: Mapping[TopicPartition, Sequence[Record]], most: int) -> Iterator[list[Record]]:
    """All that was fetched, about `most` at a time, each partition's in order and all partitions alike: a topic that
    is flooded keeps no other waiting."""
    share = max(1, most // max(1, len(fetched)))
    longest = max(map(len, fetched.values()), default=0)
    for start in range(0, longest, share):
        yield [record for records in fetched.values() for record in records[start : start + share]]

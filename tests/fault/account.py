"""What must come of the requests, derived from the log of requests and from what their sender meant."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.partition import partition_of
from tests.fault.history import Flaw, History, Meaning, Name, Place, Record


@dataclass(frozen=True, slots=True)
class Expected:
    """A dead letter that must exist once: why, and the record whose bytes it carries."""

    reason: str
    record: Record
    first_offset: int | None = None


@dataclass(slots=True)
class Account:
    """The request that counts for each name, the dead letters that are due, and how often a repeat was sent."""

    first: dict[Name, tuple[Record, Meaning]] = field(default_factory=dict)
    dead: dict[Place, Expected] = field(default_factory=dict)
    repeats: int = 0
    astray: list[tuple[Record, Meaning]] = field(default_factory=list)
    copies: list[tuple[Record, Meaning]] = field(default_factory=list)
    unknown: list[Record] = field(default_factory=list)


def home_of(tenant: str, history: History) -> int:
    return partition_of(tenant.encode(), history.requests_partitions)


def settle_account(history: History) -> Account:
    """Walk the log of requests in its own order: the first record of a name at its home partition is the request, a
    later one with its payload is a repeat, one with another payload is due as a dead letter."""
    account = Account()
    by_place = {(each.partition, each.offset): each.meaning for each in history.sent}
    by_bytes = {(each.key, each.value): each.meaning for each in history.sent}
    payloads: dict[Name, int] = {}
    for record in history.requests:
        meaning = by_place.get(record.place)
        if meaning is None:
            meaning = by_bytes.get((record.key, record.value))
            if meaning is None:
                account.unknown.append(record)
                continue
            account.copies.append((record, meaning))
        if meaning.name is None:
            account.dead[record.place] = Expected("malformed", record)
        elif record.partition != home_of(meaning.name[0], history):
            account.astray.append((record, meaning))
        elif meaning.name not in account.first:
            account.first[meaning.name] = record, meaning
            payloads[meaning.name] = meaning.payload
        elif payloads[meaning.name] == meaning.payload:
            account.repeats += 1
        else:
            first_offset = account.first[meaning.name][0].offset
            account.dead[record.place] = Expected("conflicting_duplicate", record, first_offset)
    return account


def check_delivery(history: History, account: Account) -> Iterator[Flaw]:
    """Every acknowledged record is in the log as it was sent, and every stray one went home exactly once."""
    log = {record.place: record for record in history.requests}
    for sent in history.sent:
        record = log.get((sent.partition, sent.offset))
        if record is None or (record.key, record.value) != (sent.key, sent.value):
            yield Flaw("request_gone", f"acknowledged at {sent.partition}@{sent.offset} and not there: {sent.value!r}")
    for record in account.unknown:
        yield Flaw("request_from_nowhere", f"{record.at} holds bytes that nobody sent: {record.value!r}")
    strays = Counter((record.key, record.value) for record, _ in account.astray)
    copies = Counter((record.key, record.value) for record, _ in account.copies)
    for (_, value), count in (strays - copies).items():
        yield Flaw("never_sent_home", f"{count} stray record(s) without a copy at home: {value!r}")
    for (_, value), count in (copies - strays).items():
        yield Flaw("sent_home_twice", f"{count} copy(ies) too many at home: {value!r}")

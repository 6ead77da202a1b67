"""Each record that has no name, or another payload under a taken name, is dead-lettered once, byte for byte."""

from collections import defaultdict
from collections.abc import Iterator

from schemas.dead_letter import (
    HEADER_FIRST_OFFSET,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_REASON,
    HEADER_TOPIC,
)
from tests.fault.account import Account
from tests.fault.history import Flaw, History, Place, Record


def check_dead_letters(history: History, account: Account) -> Iterator[Flaw]:
    """Missing, twice, undue, with other bytes, or for another reason."""
    found: dict[Place, list[Record]] = defaultdict(list)
    topics = {record.topic for record in history.requests}
    for letter in history.dead_letters:
        place = _source(letter)
        if place is None or letter.header(HEADER_TOPIC) not in topics:
            yield Flaw("dead_letter_unreadable", f"{letter.at} does not say where it stood: {letter.headers}")
            continue
        found[place].append(letter)
    for place, letters in found.items():
        due = account.dead.get(place)
        if due is None:
            yield Flaw(
                "dead_letter_undue", f"requests {place}: {letters[0].header(HEADER_REASON)} {letters[0].value!r}"
            )
            continue
        if len(letters) > 1:
            yield Flaw("dead_letter_twice", f"requests {place}: {', '.join(letter.at for letter in letters)}")
        for letter in letters:
            if (letter.key, letter.value) not in _spellings(due.record):
                yield Flaw("dead_letter_differs", f"{letter.at} is not {due.record.at}: {letter.value!r}")
            if letter.header(HEADER_REASON) != due.reason:
                said = letter.header(HEADER_REASON)
                yield Flaw("dead_letter_reason", f"{letter.at} says {said}, right is {due.reason}")
            if due.first_offset is not None and letter.header(HEADER_FIRST_OFFSET) != str(due.first_offset):
                named = letter.header(HEADER_FIRST_OFFSET)
                yield Flaw("dead_letter_first", f"{letter.at} names the offset {named}, right is {due.first_offset}")
    for place, due in account.dead.items():
        if place not in found:
            yield Flaw("dead_letter_missing", f"{due.record.at} {due.reason}: {due.record.value!r}")


def _spellings(record: Record) -> set[tuple[bytes | None, bytes | None]]:
    """The bytes of a record; one without key and value may come back with an empty value, since clients refuse to send
    neither."""
    exact = {(record.key, record.value)}
    return exact | {(None, b"")} if exact == {(None, None)} else exact


def _source(letter: Record) -> Place | None:
    try:
        return int(letter.header(HEADER_PARTITION) or ""), int(letter.header(HEADER_OFFSET) or "")
    except ValueError:
        return None

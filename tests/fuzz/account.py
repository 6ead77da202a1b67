"""What became of each record of requests, by what readers of the topics see: one thing, whatever was in it."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import aclosing

from aiokafka import TopicPartition

from admission.arrival import Arrival
from admission.stages.decode import Named, decode
from schemas.dead_letter import HEADER_OFFSET, HEADER_PARTITION
from schemas.names import request_name
from schemas.topics import Catalogue
from streams.batch import HEADER_HOME
from streams.kafka.log import read_log
from streams.kafka.settings import KafkaSettings
from streams.requests import arrival_of
from tests.admission import Seen, committed, decided_work, work_of

Place = tuple[int, int]


async def flaws_of(kafka: KafkaSettings, catalogue: Catalogue) -> list[str]:
    """Sentences, at most ten of each kind. Call it when admission's lag is 0.

    Requests are read by our own reader: others stop at batches whose bytes were mutated.
    """
    partitions = [TopicPartition(catalogue.requests, number) for number in range(catalogue.requests_partitions)]
    async with aclosing(read_log(kafka, partitions)) as records:
        requests = {(each.partition, each.offset): arrival_of(each) async for each in records}
    return await asyncio.to_thread(_flaws, kafka, catalogue, requests)


def _flaws(kafka: KafkaSettings, catalogue: Catalogue, requests: Mapping[Place, Arrival]) -> list[str]:
    decisions = committed(kafka, catalogue.decisions, catalogue.requests_partitions)
    return [
        *_first(_ends(requests, decisions, committed(kafka, catalogue.dead_letters, 1))),
        *_first(_numbers(decisions, catalogue.requests_partitions)),
        *_first(_events(kafka, catalogue, decisions)),
    ]


def _first(flaws: Iterator[str]) -> list[str]:
    return [flaw for flaw, _ in zip(flaws, range(10), strict=False)]


def _ends(requests: Mapping[Place, Arrival], decisions: list[Seen], dead: list[Seen]) -> Iterator[str]:
    """Decided, dead, sent home: one of these. Or nothing was said, because its name was taken, or it is a cancel."""
    ended: Counter[Place] = Counter((each.partition, each.json()["offset"]) for each in decisions)
    ended.update(map(_place, dead))
    for record in requests.values():
        # A producer may write such a header, too; ours is the last.
        name, home = record.headers[-1] if record.headers else ("", None)
        if name == HEADER_HOME and home is not None and b"/" in home:
            ended[_two(home)] += 1
    taken: dict[tuple[int, bytes | None], list[int]] = defaultdict(list)
    for each in decisions:
        taken[each.partition, each.key].append(each.json()["offset"])
    for place in ended.keys() - requests.keys():
        yield f"something ended at {place}, where there is no request"
    for (partition, offset), record in requests.items():
        times = ended[partition, offset]
        if times > 1:
            yield f"the record at {partition}/{offset} ended {times} times"
        if times == 0:
            named = decode(record.value)
            if not isinstance(named, Named):
                yield f"the record at {partition}/{offset} has no name and was dropped"
                continue
            first = min(taken[partition, request_name(named.tenant, named.request_id)], default=offset)
            cancel = isinstance(named.body, Mapping) and named.body.get("cancel") is True
            if first >= offset and not cancel:
                yield f"the record at {partition}/{offset} was dropped, and its name was not taken"


def _two(home: bytes) -> Place:
    partition, offset = home.split(b"/")
    return int(partition), int(offset)


def _place(dead: Seen) -> Place:
    headers = dict(dead.headers)
    return int(headers[HEADER_PARTITION]), int(headers[HEADER_OFFSET])


def _numbers(decisions: list[Seen], partitions: int) -> Iterator[str]:
    for partition in range(partitions):
        numbers = [each.json()["number"] for each in decisions if each.partition == partition]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"the decisions of partition {partition} are not numbered one by one"


def _events(kafka: KafkaSettings, catalogue: Catalogue, decisions: list[Seen]) -> Iterator[str]:
    """A decision that ends a request is one event, one that accepts it is work, the same however often it stands."""
    ends = Counter(each.json()["job_id"] for each in committed(kafka, catalogue.results, catalogue.requests_partitions))
    work: dict[bytes | None, set[bytes | None]] = defaultdict(set)
    for _, record in work_of(kafka, catalogue):
        work[record.key].add(record.value)
    for each in map(Seen.json, decisions):
        accepted = each["verdict"] == "accepted"
        if ends.pop(each["job_id"], 0) != (not accepted):
            yield f"{each['job_id']} is {each['verdict']} and has not its events"
        if work.pop(each["job_id"].encode(), set()) != ({decided_work(each)} if accepted else set()):
            yield f"{each['job_id']} is {each['verdict']} and has not its work"
    for job in (*ends, *work):
        yield f"{job!r} was never decided"

"""What was asked for: a result does not repeat its prompt, so it comes from the decisions topic or from the asker."""

from collections.abc import Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from aiokafka import TopicPartition

from schemas.catalogue import ConfigCatalogue
from schemas.codec import decode_object
from schemas.config import GenerationConfig
from schemas.decision import HEADER_JOB, decode_decision
from schemas.errors import CommandError, SchemaError
from schemas.result import ConfigUsed, Succeeded
from schemas.topics import Catalogue
from schemas.work import WorkItem, decode_work
from streams.kafka.admin import require_topics
from streams.kafka.log import Record, read_log
from streams.kafka.settings import KafkaSettings


@dataclass(frozen=True, slots=True)
class Wish:
    """`config` is the one that was drawn with, where that is known beside the catalogue."""

    prompt: str
    negative_prompt: str
    config: GenerationConfig | None = None


async def decided(kafka: KafkaSettings, catalogue: Catalogue, jobs: Collection[str]) -> dict[str, Wish]:
    """Of those jobs that the decisions topic still holds, by job id. Raises StreamError and KafkaError."""
    await require_topics(kafka, [catalogue.decisions])
    places = [TopicPartition(catalogue.decisions, index) for index in range(catalogue.requests_partitions)]
    wanted = {job.encode() for job in jobs}
    found = {}
    async with aclosing(read_log(kafka, places)) as records:
        async for record in records:
            item = _work(record) if _job(record) in wanted else None
            if item is not None:
                found[item.job_id] = Wish(item.prompt, item.negative_prompt, item.config)
    return found


def asked(lines: bytes, result: Succeeded) -> Wish:
    """From the requests that were sent, one JSON a line; one without a request id speaks of any result.

    Raises CommandError where none of them is of this result.
    """
    try:
        bodies = [decode_object(line) for line in lines.split(b"\n") if line.strip()]
    except SchemaError as error:
        raise CommandError(f"the request cannot be read: {error}", 2) from error
    for body in bodies:
        about = (body.get("tenant", result.tenant), body.get("request_id", result.request_id))
        prompt, negative = body.get("prompt"), body.get("negative_prompt", "")
        if about == (result.tenant, result.request_id) and isinstance(prompt, str) and isinstance(negative, str):
            return Wish(prompt, negative)
    raise CommandError(f"no request in that file is {result.tenant}/{result.request_id} and has a prompt", 2)


def config_of(used: ConfigUsed, wish: Wish, configs: ConfigCatalogue) -> GenerationConfig:
    """The configuration whose hash the result names, retired or not. Raises CommandError, which says where to look."""
    file = configs.files.get(used.name)
    ours = file.versions.get(used.version) if file else None
    for config in filter(None, (wish.config, ours)):
        if config.config_hash == used.hash:
            return config
    here = f"has the hash {ours.config_hash}" if ours else "is not known"
    raise CommandError(
        f"the result was drawn with {used.name}@{used.version} of the hash {used.hash}, which {here} here; check out "
        "the release whose configs.lock has that hash and set KILN_CONFIGS to its folder",
        2,
    )


def _job(record: Record) -> bytes | None:
    headers: Iterable[tuple[str, bytes]] = record.headers
    return dict(headers).get(HEADER_JOB)


def _work(record: Record) -> WorkItem | None:
    try:
        work = decode_decision(record.value or b"").work
        return decode_work(work.encode()) if work else None
    except SchemaError:
        return None

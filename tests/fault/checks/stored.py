"""What is published is what is stored, and every picture that an event names is there, byte for byte."""

import hashlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from PIL import Image

from tests.fault.account import Account
from tests.fault.checks.reading import Unreadable, name_of, parse, readable
from tests.fault.history import Flaw, History, Record

_RUN = {"succeeded", "failed", "expired"}


def check_stored(history: History, account: Account) -> Iterator[Flaw]:
    """No outcome, another outcome, an outcome without an event, a refused job that ran, a picture gone or changed."""
    works = {(record.topic, record.partition, record.offset): record for record in history.work}
    told = set()
    for record, body in readable(history.results):
        job = str(body.get("job_id"))
        told.add(job)
        if body.get("status") == "rejected":
            yield from _never_ran(job, record, history)
        elif job in history.stored.outcomes:
            yield from _as_stored(job, record, body, history, works)
        elif body.get("status") in _RUN:
            yield Flaw("outcome_missing", f"{record.at} ends job {job} as {body.get('status')}; nothing is stored")
        if body.get("status") == "succeeded":
            yield from _pictures(record, body, history)
    for job in history.stored.outcomes.keys() - told:
        yield Flaw("outcome_unpublished", f"job {job} is stored and no event tells of it")


def _never_ran(job: str, record: Record, history: History) -> Iterator[Flaw]:
    traces = [uri for uri in history.stored.artifacts if f"/{job}/" in uri]
    if job in history.stored.outcomes or traces:
        yield Flaw("refused_and_ran", f"{record.at} rejects job {job}; the store has {traces or 'its outcome'}")


def _as_stored(
    job: str, record: Record, body: dict[str, Any], history: History, works: dict[tuple[str, int, int], Record]
) -> Iterator[Flaw]:
    try:
        outcome = parse(history.stored.outcomes[job], f"the outcome of {job}")
    except Unreadable as error:
        yield Flaw("outcome_unreadable", str(error))
        return
    if outcome.get("result") != body:
        yield Flaw("outcome_differs", f"{record.at} of {name_of(body)} says {body}; stored is {outcome.get('result')}")
    if outcome.get("job_id") != job or outcome.get("results_partition") != record.partition:
        yield Flaw("outcome_misplaced", f"the outcome of {job} belongs to partition {outcome.get('results_partition')}")
    named = outcome.get("record") or {}
    work = works.get((str(named.get("topic")), int(named.get("partition", -1)), int(named.get("offset", -1))))
    if work is None or work.key != job.encode():
        yield Flaw("outcome_of_no_work", f"the outcome of {job} names {named}, which is not its work")


def _pictures(record: Record, body: dict[str, Any], history: History) -> Iterator[Flaw]:
    named = {str(picture.get("uri")) for picture in body.get("artifacts", [])}
    for picture in body.get("artifacts", []):
        uri = str(picture.get("uri"))
        data = history.stored.artifacts.get(uri)
        if data is None:
            yield Flaw("artifact_missing", f"{record.at} names {uri}, which is not there")
            continue
        if hashlib.sha256(data).hexdigest() != picture.get("sha256") or len(data) != picture.get("bytes"):
            yield Flaw("artifact_differs", f"{uri} is not the {picture.get('bytes')} bytes that {record.at} promises")
            continue
        size = _size(data)
        if size != (picture.get("width"), picture.get("height")):
            yield Flaw("artifact_broken", f"{uri} has the size {size}, {record.at} says another, or it is no picture")
    # The same job drawn twice gives the same bytes, hence the same name: another name is another picture.
    for uri in history.stored.artifacts:
        if f"/{body.get('job_id')}/" in uri and uri not in named:
            yield Flaw("artifact_unnamed", f"{uri} lies beside the pictures of {record.at}: two runs, two pictures")


def _size(data: bytes) -> tuple[int, int] | None:
    try:
        with Image.open(BytesIO(data)) as image:
            image.load()
            return image.size
    except (OSError, ValueError, SyntaxError):
        return None

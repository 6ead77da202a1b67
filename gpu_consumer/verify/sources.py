"""Where results and prompts come from: files, or the topics of the deployment."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from aiokafka.errors import KafkaError
from pydantic import ValidationError

from gpu_consumer.verify.wish import Wish, asked, decided
from schemas.deployment import DeploymentSettings
from schemas.errors import CatalogueError, CommandError, told
from schemas.reading import first_fault
from schemas.result import GenerationResult, Succeeded, parse_result
from streams.client import read_results
from streams.kafka.errors import StreamError
from streams.kafka.settings import KafkaSettings

T = TypeVar("T")
EXIT_CANNOT = 2
_UNREADABLE = (StreamError, KafkaError, CatalogueError)
_CURE = "give the request by --request FILE, or the prompt by --prompt"


def results_of(where: str) -> list[Succeeded]:
    """Of a file, of stdin (-), or of TENANT/REQUEST-ID in the results topic. Raises CommandError; blocks."""
    try:
        data = sys.stdin.buffer.read() if where == "-" else Path(where).read_bytes() if Path(where).is_file() else None
    except OSError as error:
        raise CommandError(
            f"{where} cannot be read: {told(error)}; name another file, or - for stdin", EXIT_CANNOT
        ) from error
    if data is not None:
        found = _parsed(data, "stdin" if where == "-" else where)
    elif "/" in where:
        found = [_from_topic(where)]
    else:
        raise CommandError(f"{where!r} is no file, and no TENANT/REQUEST-ID", EXIT_CANNOT)
    for result in found:
        if not isinstance(result, Succeeded):
            raise CommandError(
                f"{result.tenant}/{result.request_id} ended as {result.status}: there is no picture to verify",
                EXIT_CANNOT,
            )
    return [result for result in found if isinstance(result, Succeeded)]


def _parsed(data: bytes, where: str) -> list[GenerationResult]:
    """One event, in any layout, or one a line."""
    try:
        try:
            found = [parse_result(data)]
        except ValidationError:
            found = [parse_result(line) for line in data.split(b"\n") if line.strip()]
    except ValidationError as error:
        raise CommandError(f"{where} holds no result event: {first_fault(error)}", EXIT_CANNOT) from error
    if not found:
        raise CommandError(f"{where} is empty", EXIT_CANNOT)
    return found


def _from_topic(name: str) -> GenerationResult:
    tenant, _, request_id = name.partition("/")

    async def look() -> GenerationResult | None:
        kafka, catalogue = KafkaSettings.load(), DeploymentSettings().catalogue()
        async for result in read_results(kafka, catalogue):
            if (result.tenant, result.request_id) == (tenant, request_id):
                return result
        return None

    try:
        found = _quietly(look)
    except _UNREADABLE as error:
        raise CommandError(
            f"the results topic cannot be read: {told(error)}; give the result as a file", EXIT_CANNOT
        ) from error
    if found is None:
        raise CommandError(f"no result of {name} is retained; give it as a file, or `-`", EXIT_CANNOT)
    return found


def wishes_of(results: Sequence[Succeeded], request: Path | None, wish: Wish | None) -> dict[str, Wish]:
    """By job id: `wish` for all, or from a file of requests, or from the decisions topic.

    Raises CommandError where one is missing; blocks.
    """
    if wish is not None:
        return {result.job_id: wish for result in results}
    if request is not None:
        try:
            lines = request.read_bytes()
        except OSError as error:
            raise CommandError(
                f"{request} cannot be read: {told(error)}; name another file by --request", EXIT_CANNOT
            ) from error
        return {result.job_id: asked(lines, result) for result in results}

    async def look() -> dict[str, Wish]:
        kafka, catalogue = KafkaSettings.load(), DeploymentSettings().catalogue()
        return await decided(kafka, catalogue, {result.job_id for result in results})

    try:
        found = _quietly(look)
    except _UNREADABLE as error:
        raise CommandError(
            f"the prompt is in the decisions topic, and that cannot be read: {told(error)}; {_CURE}", EXIT_CANNOT
        ) from error
    for result in results:
        if result.job_id not in found:
            raise CommandError(
                f"the decision of {result.tenant}/{result.request_id} is no longer retained; {_CURE}", EXIT_CANNOT
            )
    return found


def _quietly(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The client logs each try to reach a broker; the person reads one sentence, in the end."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return asyncio.run(work())

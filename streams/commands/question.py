"""What admission would say to a request that is not sent: for the commands that tell of it."""

import time
from dataclasses import dataclass
from uuid import uuid4

from admission.errors import AdmissionError
from admission.question import Answer, ask
from schemas.errors import CatalogueError, CommandError
from schemas.reference import config_ref
from schemas.request import GenerationRequest, Lane
from schemas.settings import read_settings
from streams.asking import Present, present
from streams.commands.wish import checked, from_now
from streams.declared import declare
from streams.kafka.errors import StreamError
from streams.kafka.settings import KafkaSettings
from streams.settings import AdmissionServiceSettings

EXIT_REFUSED = 3


@dataclass(frozen=True, slots=True)
class Answered:
    """To what, by what was known of the world and the tenant."""

    request: GenerationRequest
    answer: Answer
    around: Present
    kafka: KafkaSettings


def question(
    prompt: str,
    *,
    config: str,
    tenant: str,
    negative: str,
    key: str | None,
    images: int,
    priority: Lane,
    deadline: float | None,
    may_degrade: bool,
    request_id: str | None,
) -> GenerationRequest:
    """`deadline`: seconds from now. Raises CommandError with the first thing wrong in it."""
    body = {
        "request_id": request_id or str(uuid4()), "tenant": tenant, "key": key, "prompt": prompt,
        "negative_prompt": negative,
        "config": config_ref(config).model_dump(exclude_none=True), "images": images, "priority": priority,
        "deadline": None if deadline is None else from_now(deadline), "may_degrade": may_degrade,
    }  # fmt: skip
    return checked(body, "the request")


async def answered(request: GenerationRequest, timeout_seconds: float) -> Answered:
    """Raises CommandError where what is declared, or what is read, cannot be decided by."""
    settings = read_settings(AdmissionServiceSettings)
    try:
        kafka, declared = KafkaSettings.load(), declare(settings.tokenizers)
        around = await present(kafka, declared, settings, request.tenant, timeout_seconds)
    except (AdmissionError, CatalogueError, StreamError, ValueError) as error:
        raise CommandError(str(error)) from error
    return Answered(request, ask(request, around.state, around.world, time.time_ns() // 1_000_000), around, kafka)

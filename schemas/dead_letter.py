"""The headers of a dead letter. Its key and value are the original bytes; its reason stands beside them."""

HEADER_REASON = "kiln-reason"
HEADER_MESSAGE = "kiln-message"
HEADER_TOPIC = "kiln-topic"
HEADER_PARTITION = "kiln-partition"
HEADER_OFFSET = "kiln-offset"
HEADER_FIRST_OFFSET = "kiln-first-offset"


def dead_letter_headers(
    reason: str, message: str, topic: str, partition: int, offset: int, first_offset: int | None = None
) -> tuple[tuple[str, bytes], ...]:
    """Reason, a sentence, and where the record stood; `first_offset` names the request it conflicts with."""
    headers = (
        (HEADER_REASON, reason.encode()),
        (HEADER_MESSAGE, message.encode("utf-8", "replace")),
        (HEADER_TOPIC, topic.encode()),
        (HEADER_PARTITION, str(partition).encode()),
        (HEADER_OFFSET, str(offset).encode()),
    )
    return headers if first_offset is None else (*headers, (HEADER_FIRST_OFFSET, str(first_offset).encode()))

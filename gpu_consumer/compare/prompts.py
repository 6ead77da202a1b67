"""A set of prompts in a file: one a line, as text or as JSON with a negative prompt."""

from dataclasses import dataclass
from pathlib import Path

from schemas.codec import decode_object
from schemas.errors import CommandError, SchemaError, told

PROMPTS_MAX = 200  # a sheet of more has more pixels than viewers open


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    negative: str = ""


def read_prompts(path: Path) -> list[Prompt]:
    """At least one. A line that begins with { is a request, or the part of one that has its prompts.

    Raises CommandError with exit status 2 where the file is not there, a line is wrong, or it has none or too many.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {told(error)}; name a file of prompts by --prompts", 2) from error
    found = [_prompt(line.strip(), number) for number, line in enumerate(lines, 1) if line.strip()]
    if not 0 < len(found) <= PROMPTS_MAX:
        raise CommandError(f"{path} has {len(found)} prompts; give 1 to {PROMPTS_MAX}, one a line", 2)
    return found


def _prompt(line: str, number: int) -> Prompt:
    if not line.startswith("{"):
        return Prompt(line)
    try:
        body = decode_object(line.encode())
    except SchemaError as error:
        raise CommandError(f"line {number}: {error}", 2) from error
    text, negative = body.get("prompt"), body.get("negative_prompt", "")
    if not isinstance(text, str) or not text or not isinstance(negative, str):
        raise CommandError(f"line {number} has no text under 'prompt', or none under 'negative_prompt'", 2)
    return Prompt(text, negative)

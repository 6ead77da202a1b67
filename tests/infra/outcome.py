"""What a check says: what it looked at, what it found, or why it could not look."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.golang import GoMissing
from tests.infra.tools import ToolMissing


@dataclass(frozen=True, slots=True)
class Outcome:
    """`looked` is for the table; each finding is one sentence that says where. Nothing looked at is a finding, too."""

    looked: str
    findings: tuple[str, ...] = ()
    skipped: str | None = None


Check = Callable[[], Outcome]


def outcome_of(check: Check) -> Outcome:
    """A check whose tool is not here is skipped, with the sentence that says what to install."""
    try:
        return check()
    except (GoMissing, ToolMissing) as missing:
        return Outcome(looked="", skipped=str(missing))


def counted(**numbers: int) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items())

"""How many tokens a text has for a model, and how many the model reads of it. What counts them is the host's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

# Counted in pieces a text has a few tokens more, where a piece had to end within a word; never by half.
_SURE: Final = 1.5


@dataclass(frozen=True, slots=True)
class Encoder:
    """One text encoder of a model. `count` gives a text's tokens with the marks that begin and end it; `marks` of
    them are these, `read` is how many the encoder takes."""

    count: Callable[[str], int]
    read: int
    marks: int


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """All text encoders of one model. Of several, what the longest reads is read."""

    encoders: Sequence[Encoder]

    @property
    def longest(self) -> Encoder:
        return max(self.encoders, key=lambda each: each.read)

    def too_many(self, text: str) -> str | None:
        """In words, if the end of `text` would be left out. A text that is far too long is not counted to its end:
        who sends such takes no more of our time than others."""
        encoder = self.longest
        room = encoder.read - encoder.marks
        if text.isascii() and len(text) <= room:
            return None  # no token is less than a letter
        if _surely(text, encoder):
            many = f"far more than {room}"
        elif (count := encoder.count(text) - encoder.marks) > room:
            many = str(count)
        else:
            return None
        return f"{many} tokens, and the model reads {room} ({encoder.read} with its {encoder.marks} marks)"


def _surely(text: str, encoder: Encoder) -> bool:
    """Has it too many beyond doubt? Looks no further than it must."""
    found = start = 0
    while start < len(text):
        end = start + 2 * encoder.read
        if end < len(text):
            blank = text.rfind(" ", start + 1, end)
            end = blank if blank > 0 else end
        found += encoder.count(text[start:end]) - encoder.marks
        if found > _SURE * encoder.read:
            return True
        start = end
    return False

"""How many tokens a text has for a model, and how many the model reads of it. What counts them is the host's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


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
        """In words, if the end of `text` would be left out."""
        encoder = self.longest
        if text.isascii() and len(text) + encoder.marks <= encoder.read:
            return None  # no token is less than a letter
        count = encoder.count(text)
        if count <= encoder.read:
            return None
        return (
            f"{count - encoder.marks} tokens, and the model reads {encoder.read - encoder.marks} "
            f"({encoder.read} with its {encoder.marks} marks)"
        )

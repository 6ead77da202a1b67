"""Mutations of a record: its bytes, the structure and types of its JSON, its Unicode, its sizes, what is around it.

All chance is from the generator handed in, so that a seed gives the same records again.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from schemas.request import GenerationRequest
from tests.fuzz.samples import PIECES, SEEDS, VALUES, Sample

_FIELDS = (*GenerationRequest.model_fields, "prompt ", "Tenant", "")
_LARGE = 1_200_000  # above what a topic takes
_RARELY = 0.002  # large records cost as much as hundreds of small ones
_MARKS = ("\u200b", "\u200d", "\u0301", "\u202e", "\ufe0f", "\0", "\ud800", "🏺", "ﷺ", "\u2028", "İ")


class Mutator:
    """Samples made from `corpus`, which its owner may let grow."""

    def __init__(self, chance: Random, corpus: list[Sample]) -> None:
        self._chance = chance
        self._corpus = corpus
        self._kinds: tuple[tuple[Callable[[Sample], Sample], int], ...] = (
            (self._field, 12), (self._name, 9), (self._unicode, 4), (self._around, 3), (self._bytes, 2),
            (self._piece, 2), (self._splice, 1), (self._rename, 1), (self._twice, 1), (self._wrap, 1),
            (self._longer, 1),
        )  # fmt: skip

    def sample(self) -> Sample:
        sample = self._chance.choice(self._corpus if self._corpus and self._chance.random() < 0.3 else SEEDS)
        kinds, weights = zip(*self._kinds, strict=True)
        for kind in self._chance.choices(kinds, weights, k=self._chance.choice((1, 1, 2, 3, 5))):
            sample = kind(sample)
        return sample

    def _size(self) -> int:
        most = _LARGE if self._chance.random() < _RARELY else 4000
        return int(10 ** self._chance.uniform(0, math.log10(most)))

    def _span(self, value: bytes) -> tuple[int, int]:
        one, other = self._chance.randint(0, len(value)), self._chance.randint(0, len(value))
        return min(one, other), max(one, other)

    # Bytes -----------------------------------------------------------------------------------------------------------

    def _bytes(self, sample: Sample) -> Sample:
        value = bytearray(sample.value or b"{}")
        for _ in range(self._chance.choice((1, 1, 2, 8))):
            at = self._chance.randint(0, len(value))
            match self._chance.randrange(4):
                case 0 if at < len(value):
                    value[at] ^= 1 << self._chance.randrange(8)
                case 1 if at < len(value):
                    value[at] = self._chance.randrange(256)
                case 2:
                    value.insert(at, self._chance.randrange(256))
                case _:
                    del value[at : at + self._chance.choice((1, 2, 30))]
        return replace(sample, value=bytes(value))

    def _piece(self, sample: Sample) -> Sample:
        value = sample.value or b""
        start, end = self._span(value)
        if self._chance.random() < 0.7:
            end = start
        return replace(sample, value=value[:start] + self._chance.choice(PIECES) + value[end:])

    def _splice(self, sample: Sample) -> Sample:
        one, other = sample.value or b"", self._chance.choice(SEEDS).value or b""
        return replace(sample, value=one[: self._span(one)[0]] + other[self._span(other)[1] :])

    # JSON ------------------------------------------------------------------------------------------------------------

    def _changed(self, sample: Sample, change: Callable[[dict[str, Any]], Any]) -> Sample:
        try:
            body = json.loads(sample.value or b"")
            if not isinstance(body, dict):
                return sample
            text = json.dumps(change(body), ensure_ascii=self._chance.random() < 0.5)
        except (ValueError, RecursionError):
            return self._bytes(sample)
        return replace(sample, value=text.encode("utf-8", "surrogatepass"))

    def _field(self, sample: Sample) -> Sample:
        name, value = self._chance.choice(_FIELDS), self._chance.choice(VALUES)

        def change(body: dict[str, Any]) -> dict[str, Any]:
            inner = body.get(name)
            match self._chance.randrange(5):
                case 0:
                    body.pop(name, None)
                case 1 if isinstance(inner, dict):
                    inner[self._chance.choice((*inner, "", "name", "version", "channel", "a" * 65))] = value
                case 2 if isinstance(inner, list):
                    inner.append(value)
                case _:
                    body[name] = value
            return body

        return self._changed(sample, change)

    def _rename(self, sample: Sample) -> Sample:
        def change(body: dict[str, Any]) -> dict[str, Any]:
            if body:
                content = body.pop(self._chance.choice(list(body)))
                body[self._chance.choice((*_FIELDS, "f" * self._size()))] = content
            return body

        return self._changed(sample, change)

    def _twice(self, sample: Sample) -> Sample:
        name = self._chance.choice(_FIELDS)
        text = f'{{"{name}":{json.dumps(self._chance.choice(VALUES))},'
        return replace(sample, value=(sample.value or b"{}").replace(b"{", text.encode(), 1))

    def _wrap(self, sample: Sample) -> Sample:
        levels, value = self._chance.choice((1, 62, 63, 64, 65, 900, 20_000)), sample.value or b""
        start, end = (0, len(value)) if self._chance.random() < 0.3 else self._span(value)
        opened, closed = self._chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
        return replace(sample, value=value[:start] + opened * levels + value[start:end] + closed * levels + value[end:])

    def _name(self, sample: Sample) -> Sample:
        """A new name: or most samples would be repeats and conflicts of one."""
        return self._changed(sample, lambda body: {**body, "request_id": f"r{self._chance.randrange(10**9)}"})

    # Unicode, sizes, surroundings ------------------------------------------------------------------------------------

    def _unicode(self, sample: Sample) -> Sample:
        marks = self._chance.choice(_MARKS) * self._chance.choice((1, 2, 2100, self._size()))

        def change(body: dict[str, Any]) -> dict[str, Any]:
            texts = [name for name, content in body.items() if isinstance(content, str)]
            if texts:
                name = self._chance.choice(texts)
                at = self._chance.randint(0, len(body[name]))
                body[name] = body[name][:at] + marks + body[name][at:]
            return body

        return self._changed(sample, change)

    def _longer(self, sample: Sample) -> Sample:
        value = sample.value or b" "
        start, end = self._span(value)
        times = self._size() // max(1, end - start)
        return replace(sample, value=value[:start] + value[start:end] * times + value[end:])

    def _around(self, sample: Sample) -> Sample:
        match self._chance.randrange(5):
            case 0:
                keys = (None, b"", b"alice", b"ivan", b"\xff", b"alice\0", b"k" * self._size())
                return replace(sample, key=self._chance.choice(keys))
            case 1:
                header = (
                    self._chance.choice(("", "h", "kiln-home", "é", "h" * self._size())),
                    self._chance.choice((None, b"", b"\xff")),
                )
                return replace(sample, headers=(header,) * min(10_000, self._size()))
            case 2:
                return replace(sample, headers=(*sample.headers, ("h", b"x" * self._size())))
            case 3:
                return replace(sample, at_home=False)
            case _:
                return replace(sample, value=None) if self._chance.random() < 0.05 else sample

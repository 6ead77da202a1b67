"""Terms that a text may not hold: single words, several in a row, or the beginning of a word.

Compared word by word over the normalised text, so that a term inside another word is not one, in a time that does
not depend on how many terms there are.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from admission.text import normalised

CATEGORY: Final = "list"  # of terms above the first heading
_HEADING: Final = re.compile(r"\[\s*([a-z0-9][a-z0-9 _-]{0,39})\s*\]")

# Scripts that put no blank between words: each character is a word of its own, and a term may begin anywhere.
_CONTINUOUS: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Japanese, Chinese
)
# Vowels of Indic scripts are marks and part of a word, their full stops are not.
_WORD: Final = re.compile(rf"[{_CONTINUOUS}]|(?:(?![{_CONTINUOUS}_\u0964\u0965])[\w\u0900-\u0dff])+")
_SPELLED_MIN: Final = 3  # "k i l l" is read as "kill", too; "a b" is not


class TermsRefused(ValueError):
    """A list that cannot be used, with the line and the cure."""


@dataclass(slots=True)
class _Node:
    """Words that may follow; what ends here; beginnings of a last word, by their length."""

    following: dict[str, "_Node"] = field(default_factory=dict)
    category: str | None = None
    beginnings: dict[str, str] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()


class Terms:
    """A list that is compiled as it grows. Looking for a term changes nothing."""

    def __init__(self) -> None:
        self._root = _Node()
        self.number = 0

    def add(self, term: str, category: str = CATEGORY, *, words_max: int = 8) -> None:
        """`term` may end with `*`. Raises TermsRefused where it cannot be found in any text."""
        if "*" in term[:-1]:
            raise TermsRefused(f"{term!r} has a * that is not at its end; write it as several terms")
        found = words(normalised(term))
        if not found:
            raise TermsRefused(f"{term!r} has no word in it; remove it")
        if len(found) > words_max:
            raise TermsRefused(f"{term!r} has more than {words_max} words; shorten it")
        node, last = self._root, found[-1]
        for word in found[:-1]:
            node = node.following.setdefault(word, _Node())
        if term.endswith("*"):
            node.beginnings.setdefault(last, category)
            node.lengths = tuple(sorted({*node.lengths, len(last)}))
        else:
            node = node.following.setdefault(last, _Node())
            node.category = node.category or category
        self.number += 1

    def find(self, text: str) -> str | None:
        """The category of the first term in `text`, which is normalised; None: there is none."""
        if not self.number:
            return None
        read = words(text)
        return self._first(read) or self._first(_spelled(read))

    def _first(self, read: Sequence[str]) -> str | None:
        for start in range(len(read)):
            node = self._root
            for word in read[start:]:
                for length in node.lengths:
                    if word[:length] in node.beginnings:
                        return node.beginnings[word[:length]]
                following = node.following.get(word)
                if following is None:
                    break
                if following.category is not None:
                    return following.category
                node = following
        return None


def words(text: str) -> list[str]:
    """Of a normalised text: letters and digits; all else is between them."""
    return _WORD.findall(text)


def _spelled(read: Sequence[str]) -> list[str]:
    """The words that single letters in a row make; a full stop between each keeps them from making terms together."""
    found: list[str] = []
    letters: list[str] = []
    for word in (*read, ""):
        if len(word) == 1 and word < _CONTINUOUS[0]:
            letters.append(word)
            continue
        if len(letters) >= _SPELLED_MIN:
            found += ["".join(letters), "."]
        letters.clear()
    return found


def parse_terms(text: str, *, terms_max: int, words_max: int) -> Terms:
    """One term a line; `#` begins a comment, `[name]` a category. Raises TermsRefused, with the line's number."""
    category, terms = CATEGORY, Terms()
    for number, line in enumerate(text.splitlines(), 1):
        term = line.partition("#")[0].strip()
        try:
            if term.startswith("["):
                category = _category(term)
            elif term:
                terms.add(term, category, words_max=words_max)
        except TermsRefused as error:
            raise TermsRefused(f"line {number}: {error}") from error
        if terms.number > terms_max:
            raise TermsRefused(f"line {number}: more than {terms_max} terms; remove some, or allow more")
    return terms


def _category(heading: str) -> str:
    found = _HEADING.fullmatch(heading.lower())
    if found is None:
        raise TermsRefused(f"{heading!r} is no category; write [name], of a-z 0-9 _ - and blanks")
    return found[1].strip()

"""A text as a policy reads it: what looks alike is alike, and what cannot be seen is not there.

For judging alone. The model is given the prompt as its sender wrote it.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

# Letters of other scripts that most fonts draw as these Latin ones; of the database's own names none says so. Small
# letters, as case is folded before.
_LOOK_ALIKE: Final = {
    "a": "аɑα", "b": "ь", "c": "сϲᴄ", "d": "ԁ", "e": "еєҽ", "g": "ɡց", "h": "һհ", "i": "іıι", "j": "јϳ",
    "k": "кκ", "l": "ⅼӏǀ", "m": "м", "n": "ո", "o": "оοօσഠ", "p": "рρ", "q": "ԛգ", "r": "г", "s": "ѕꜱ",
    "t": "тτ", "u": "υսʋ", "v": "ѵν", "w": "ԝωա", "x": "хχ", "y": "уγү", "z": "ᴢ",
}  # fmt: skip
_LETTER_OF: Final = {ord(other): letter for letter, others in _LOOK_ALIKE.items() for other in others}

# "LATIN SMALL LETTER O WITH STROKE", "NEGATIVE SQUARED LATIN CAPITAL LETTER A", "REGIONAL INDICATOR SYMBOL LETTER A"
_NAMED_LETTER: Final = re.compile(r"(?:.* )?LETTER (?:SMALL CAPITAL |SCRIPT |DOTLESS )?([A-Z])(?: WITH .*)?")
_LATIN: Final = ("LATIN", "REGIONAL INDICATOR", "NEGATIVE", "SQUARED", "CIRCLED", "PARENTHESIZED")

# Drawn as nothing, though their category is that of a letter, a mark or a symbol.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u0640")
# Marks that any letter may have, and vowels that may be left out. Others make another letter, and stay.
_MARKS: Final = ("COMBINING ", "VARIATION SELECTOR", "MONGOLIAN FREE VARIATION", "ARABIC ", "HEBREW ")
_VOICED: Final = "COMBINING KATAKANA"

_UNSEEN_CATEGORIES: Final = ("Mn", "Me", "Cf", "Cc", "Cn", "Co")

# Unicode has a million: a sender who uses them all shall not fill the memory. Prompts of a day have a few thousand.
_REMEMBERED_MAX: Final = 20_000


class _Table(dict[int, str]):
    """For str.translate(): what a character becomes, found out when it is first met."""

    def __init__(self, becomes: Callable[[str], str]) -> None:
        self._becomes = becomes

    def __missing__(self, code: int) -> str:
        became = self._becomes(chr(code))
        if len(self) < _REMEMBERED_MAX:
            self[code] = became
        return became


def _became(character: str) -> str:
    category = unicodedata.category(character)
    if character.isspace() or category[0] == "Z":
        return " "
    name = unicodedata.name(character, "")
    if category[0] == "C" or category == "Me" or character in _BLANK:  # controls, formats, surrogates, private use
        return ""
    if category == "Mn" and name.startswith(_MARKS) and not name.startswith(_VOICED):
        return ""
    if ord(character) in _LETTER_OF:
        return _LETTER_OF[ord(character)]
    letter = _NAMED_LETTER.fullmatch(name) if name.startswith(_LATIN) else None
    return letter[1].lower() if letter else character


def _unseen(character: str) -> str:
    """A blank where it is seen, or is one."""
    if character.isspace():
        return " "
    return "." if unicodedata.category(character) in _UNSEEN_CATEGORIES or character in _BLANK else " "


_TABLE: Final = _Table(_became)
_UNSEEN: Final = _Table(_unseen)


def normalised(text: str) -> str:
    """`text` in one spelling: compatibility forms and case folded, invisible characters and accents gone, letters that
    look like Latin ones made Latin, white space one blank. Normalising again changes nothing."""
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text).casefold()
        # Apart, so that an accent is a mark of its own; then together again, for scripts whose letters are composed.
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFKD", folded).translate(_TABLE))
    return " ".join(text.casefold().translate(_TABLE).split())


def longest_unseen(text: str) -> int:
    """How many marks and characters that cannot be seen come in a row, at most."""
    if text.isascii() and text.isprintable():
        return 0
    return max(map(len, text.translate(_UNSEEN).split()), default=0)


def visible(text: str) -> bool:
    """Is anything of it to be seen?"""
    if text.isascii() and text.isprintable():
        return not text.isspace() and text != ""
    return any(_TABLE[ord(character)].strip() for character in text)

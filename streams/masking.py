"""Secrets and personal data in a line of a log, each made unreadable before the line is written.

A net under what our own lines say, which is names, numbers and places: what a library puts into an error is not ours to
choose. A pattern errs on the side of masking; what only looks like an e-mail address is lost to whoever reads the log.
"""

import re
from collections.abc import Callable
from typing import Final

# Each pattern is linear: no two of its repetitions can take the same character one after the other.
_LINE_MAX: Final = 64 << 10  # characters; beyond it a line is cut, since no line of ours has so many

_KEY_WORDS: Final = (
    r"(?:password|passwd|passphrase|pwd|secret|token|credentials?|authorization|signature|cookie|"
    r"(?:api|access|private|account|signing|session|secret)[_-]?key)(?![A-Za-z])"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)", re.DOTALL
)
_SCHEME: Final = re.compile(r"\b(Bearer|Basic|Digest|AWS4-HMAC-SHA256)\s+[^\s,;'\"]{6,}", re.IGNORECASE)
# password=..., "secret": "...", sasl.jaas.config's password="...", --token ...
_PAIR: Final = re.compile(
    rf"""((?:{_KEY_WORDS})[\w.-]{{0,20}}['"]?\s{{0,4}}(?:=>|[=:])\s{{0,4}}(?:b(?=['"]))?)"""
    r"""("(?:[^"\\]|\\.){0,4096}"?|'(?:[^'\\]|\\.){0,4096}'?|[^\s,;&'"()\[\]{}<>]+)""",
    re.IGNORECASE,
)
_NO_SECRETS: Final = frozenset({"none", "null", "true", "false", "bearer", "basic", "digest", "aws4-hmac-sha256"})
_USER_INFO: Final = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]{1,15}://)[^\s/@:'\"]{0,256}:[^\s/@'\"]{1,256}@")
_KNOWN: Final = re.compile(
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,255}|hf_[A-Za-z0-9]{20,255}|sk-[A-Za-z0-9_-]{20,255}|"
    r"xox[abprs]-[A-Za-z0-9-]{10,255}|eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{0,1024})"
)
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b")
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_CARD: Final = re.compile(r"(?<![\w.-])[2-6](?:[ -]?\d){12,18}(?![\w-])")
_PHONE: Final = re.compile(
    r"(?<![\w+.:-])(?:\+\d{1,3}(?:[ ./-]?\(?\d{1,5}\)?){2,6}|\(\d{2,5}\) ?\d{2,4}(?:[ -]?\d{2,5}){1,3}|"
    r"\d{3}[-. ]\d{3}[-. ]\d{4})(?![\w-])"
)
_PHONE_DIGITS: Final = range(7, 16)  # ITU-T E.164: 15 at most


def masked(text: str) -> str:
    """`text` with what must not be read replaced by [what it was]. Takes time in proportion to it."""
    if len(text) > _LINE_MAX:
        text = f"{text[:_LINE_MAX]}… {len(text) - _LINE_MAX} more characters"
    text = _PRIVATE_KEY.sub("[private key]", text)
    text = _SCHEME.sub(r"\1 [secret]", text)
    text = _PAIR.sub(_pair, text)
    text = _USER_INFO.sub(r"\1[secret]@", text)
    text = _KNOWN.sub("[secret]", text)
    text = _EMAIL.sub("[e-mail]", text)
    text = _IBAN.sub(_if(_is_iban, "[iban]"), text)
    text = _CARD.sub(_if(_is_card, "[card]"), text)
    return _PHONE.sub(_if(_is_phone, "[phone]"), text)


def _pair(found: re.Match[str]) -> str:
    value = found[2]
    if value.lower() in _NO_SECRETS:
        return found[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found[1]}{quote}[secret]{quote}"


def _if(is_one: Callable[[str], bool], instead: str) -> Callable[[re.Match[str]], str]:
    return lambda found: instead if is_one(found[0]) else found[0]


def _digits(text: str) -> list[int]:
    return [int(character) for character in text if character.isdecimal()]


def _is_card(text: str) -> bool:
    """By the Luhn sum (ISO/IEC 7812-1)."""
    digits = _digits(text)[::-1]
    return sum(digits[::2]) % 10 == -sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2]) % 10


def _is_iban(text: str) -> bool:
    """By its check digits (ISO 13616)."""
    letters = text.replace(" ", "")
    moved = letters[4:] + letters[:4]
    return 15 <= len(letters) <= 34 and int("".join(str(int(character, 36)) for character in moved)) % 97 == 1


def _is_phone(text: str) -> bool:
    return len(_digits(text)) in _PHONE_DIGITS

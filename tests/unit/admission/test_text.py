"""A text as a policy reads it: what looks alike is alike, and what cannot be seen is not there."""

import unicodedata

import pytest

from admission import text as module
from admission.text import longest_unseen, normalised, visible


@pytest.mark.parametrize(
    "written",
    [
        "Kill", "ｋｉｌｌ", "𝓴𝓲𝓵𝓵", "ⓚⓘⓛⓛ", "🅺🅸🅻🅻", "🇰🇮🇱🇱", "KILL", "kıll", "KİLL", "кill", "kiӏl", "κill", "kíll",
        "k\u200bi\u200dl\u2060l", "k\u00adill", "\u202ekill\u202c", "\ufeffkill", "k\ufe0fi\U000e0101ll", "k\u3164ill",
        "ki\u0301\u0300\u0302ll", "k" + "\u0489" * 500 + "ill", "kill\x07", "\tkill\n\n", "k\u034fill",
    ],
)  # fmt: skip
def test_disguises_of_a_word_are_read_as_it(written: str) -> None:
    """Case ADM-07: zero-width characters, marks and other alphabets slip past filters."""
    assert normalised(written) == "kill"


def test_composed_and_decomposed_are_one() -> None:
    """Case ADM-07: NFC beside NFD."""
    for word in ("naïve", "Ωmega", "が", "한국어", "हिंदी", "ПРИВЕТ", "straße"):
        assert normalised(unicodedata.normalize("NFD", word)) == normalised(unicodedata.normalize("NFC", word))


def test_words_of_other_scripts_keep_their_vowels() -> None:
    assert normalised("हिंदी") == "हिंदी"
    assert normalised("が") != normalised("か")
    assert normalised("العَرَبِيَّة") == normalised("العربية"), "which Arabic may leave out"
    assert normalised("한국어") == "한국어"


def test_blanks_of_any_kind_are_one() -> None:
    assert normalised(" a\u00a0\u2003b\u3000\n\tc ") == "a b c"


def test_normalising_again_changes_nothing() -> None:
    every = (chr(code) for code in range(0, 0x3000) if not 0xD800 <= code < 0xE000)
    for character in every:
        once = normalised(f"a{character}b")
        assert normalised(once) == once, hex(ord(character))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\u200b" * 50,
        "\u2060\ufeff\u00ad",
        "\u202e\u202c",
        "\u3164\u2800",
        "\x01\x7f",
        "\ufe0f",
        "\u0301",
        "\U000e0041",
        " \t\u00a0",
    ],
)
def test_what_cannot_be_seen_is_nothing(text: str) -> None:
    assert not visible(text)


@pytest.mark.parametrize("text", ["a", "\u200b.", "日", "🔥", "\u200b\u200b\u200bx", "!", "ы"])
def test_a_mark_or_a_symbol_is_something(text: str) -> None:
    assert visible(text)


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("", 0), ("plain", 0), ("a\tb\n\nc", 0), ("e\u0301\u0301", 2), ("a" + "\u0301" * 99 + "b\u0301", 99),
        ("a\u200b\u0301\u2060b", 3), ("\x07\x07", 2), ("👨\u200d👩\u200d👧\ufe0f", 1), ("हिंदी", 1), ("\u3164\u2800", 2),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", 6),
    ],
)  # fmt: skip
def test_marks_and_unseen_characters_in_a_row_are_counted(text: str, run: int) -> None:
    assert longest_unseen(text) == run


def test_a_sender_of_every_character_does_not_fill_the_memory() -> None:
    for begin in range(0x10000, 0x40000, 1000):
        normalised("".join(map(chr, range(begin, begin + 1000))))
        longest_unseen("".join(map(chr, range(begin, begin + 1000))))
    assert len(module._TABLE) == len(module._UNSEEN) == module._REMEMBERED_MAX
    assert normalised("Kíll") == "kill"


def test_of_ascii_all_is_seen_but_blanks_and_controls() -> None:
    assert not visible("")
    for character in map(chr, range(128)):
        alone, among = visible(character), visible(f" {character}\u200b")
        assert alone == among == ("!" <= character <= "~")

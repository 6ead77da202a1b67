"""Terms that a text may not hold."""

from typing import Any

import pytest

from admission.terms import Terms, TermsRefused, parse_terms, words
from admission.text import normalised

LIST = """
# everything before a heading is of the category `list`
kill
[gore]
blood bath   # two words
dismember*
severed head*
暴力
काम
[self harm]
Schnitt wunde
"""


def terms(text: str = LIST, **limits: int) -> Terms:
    return parse_terms(text, **{"terms_max": 100, "words_max": 8, **limits})


def found(prompt: str) -> str | None:
    return terms().find(normalised(prompt))


@pytest.mark.parametrize(
    ("prompt", "category"),
    [
        ("kill", "list"),
        ("a KILL, painted", "list"),
        ("k\u200bіll", "list"),
        ("kill_them", "list"),
        ("blood   bath", "gore"),
        ("Blood-Bath", "gore"),
        ("blood.\nbath", "gore"),
        ("dismember", "gore"),
        ("dismembered doll", "gore"),
        ("two severed heads", "gore"),
        ("激しい暴力場面", "gore"),
        ("यह काम।", "gore"),
        ("SCHNITT WUNDE", "self harm"),
        ("k i l l", "list"),
        ("k.i.l.l now", "list"),
        ("blood blood bath", "gore"),
    ],
)
def test_a_term_is_found_however_it_is_written(prompt: str, category: str) -> None:
    assert found(prompt) == category


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "skill",
        "killer whale",
        "bath of blood",
        "blood orange bath",
        "a severed rope",
        "कमल",
        "कामना",
        "暴れる力",
        "k i",
        "remember",
    ],
)
def test_a_term_inside_other_words_is_none(prompt: str) -> None:
    assert found(prompt) is None


def test_the_first_term_decides_and_a_shorter_one_does_not_hide_a_longer() -> None:
    both = terms("[a]\nred car*\n[b]\nred car race\n[c]\nred\nred\n[d]\nred\n")
    assert both.find("the red sea") == "c"
    assert terms("[a]\nred hot poker\n[b]\nhot\n").find("red hot chilli") == "b"


def test_an_empty_list_finds_nothing() -> None:
    assert terms("# nothing\n\n").find("kill") is None
    assert terms("# nothing\n\n").number == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ki*ll", r"line 1: 'ki\*ll' has a \*"),
        ("ok\n!!!", "line 2: '!!!' has no word"),
        ("\u200b*", "has no word"),
        ("[Ünfug]", "line 1: .* is no category"),
        ("[open", "is no category"),
        ("a b c", "line 1: 'a b c' has more than 2 words"),
        ("a\nb\nc\nd", "line 4: more than 3 terms"),
    ],
)
def test_a_list_that_cannot_be_used_names_its_line(text: str, problem: str) -> None:
    with pytest.raises(TermsRefused, match=problem):
        terms(text, terms_max=3, words_max=2)


def test_words_are_what_is_between_all_else() -> None:
    assert words("a-b_c 3d, é") == ["a", "b", "c", "3d", "é"]
    assert words("日本go") == ["日", "本", "go"]


def test_looking_takes_steps_in_proportion_to_the_text() -> None:
    """Not to the list, and not to how often its terms nearly match: a sender chooses the text."""
    steps = 0

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal steps
            steps += 1
            return super().get(key, default)

    lines = [*("a " * n + f"b{n}" for n in range(1, 8)), *(f"w{n}*" for n in range(500))]
    nearly = terms("\n".join(lines), terms_max=600)
    nodes = [nearly._root]
    for node in nodes:
        nodes += node.following.values()
        node.following = Counted(node.following)
    assert nearly.find("a " * 1000) is None
    assert steps <= 8 * 1000 + 8

"""Prompts that their model does not read to the end."""

from dataclasses import replace
from typing import Any

import pytest

from admission.decide import decide
from admission.tokens import Encoder, TokenCounter
from admission.verdict import Verdict
from admission.wait import Wait
from schemas.catalogue import ConfigCatalogue
from tests.unit.admission.scene import (
    DIGEST,
    NOW_MS,
    accepted,
    arrival,
    config_file,
    fresh_state,
    make_world,
    rejected,
    request,
)


def words(read: int, marks: int = 2) -> Encoder:
    """One token a word."""
    return Encoder(count=lambda text: len(text.split()) + marks, read=read, marks=marks)


def decided(*encoders: Encoder, model: str = "tiny", prompt_tokens: str = "refuse", **changes: Any) -> Verdict:
    world = replace(make_world(prompt_tokens=prompt_tokens), tokens={model: TokenCounter(encoders)})
    return decide(arrival(request(**changes)), fresh_state(), world, NOW_MS)


def test_what_the_model_reads_to_its_end_enters() -> None:
    accepted(decided(words(77), prompt="kiln " * 75))


def test_one_token_more_is_refused_with_the_numbers() -> None:
    result = rejected(decided(words(77), prompt="kiln " * 76))
    assert (result.code, result.field) == ("prompt_too_long", "prompt")
    assert result.message == (
        "prompt has 76 tokens, and the model reads 75 (77 with its 2 marks); shorten it, or its end would be left out"
    )


def test_the_negative_prompt_is_read_no_further() -> None:
    assert rejected(decided(words(77), negative_prompt="smoke " * 76)).field == "negative_prompt"


def test_of_several_encoders_the_one_that_reads_most_counts() -> None:
    """Case DIF-04: a limit is the model's, and what one encoder leaves out another hears."""
    accepted(decided(words(77), words(256, 1), prompt="kiln " * 200))
    assert (
        "256 tokens, and the model reads 255 (256"
        in rejected(decided(words(77), words(256, 1), prompt="kiln " * 256)).message
    )


@pytest.mark.parametrize(
    "without", [{"prompt_tokens": "report"}, {"model": "another"}], ids=["reported", "no tokenizer"]
)
def test_else_it_enters_and_the_result_tells(without: dict[str, str]) -> None:
    accepted(decided(words(77), prompt="kiln " * 300, **without))


@pytest.mark.parametrize(("read", "label"), [(77, "cheap@1"), (10, "dear@1")])
def test_a_sibling_that_reads_less_does_not_stand_in(read: int, label: str) -> None:
    dear = config_file("dear", price={"gpu_seconds": 8.0, "vram_bytes": 1 << 30})
    cheap = config_file("cheap", model={"name": "small", "digest": DIGEST})
    world = replace(
        make_world(prompt_tokens="refuse"),
        configs=ConfigCatalogue([dear.model_copy(update={"degrades_to": {1: "cheap@1"}}), cheap]),
        waits={"default": Wait({"standard": 1000.0})},
        tokens={"tiny": TokenCounter((words(77),)), "small": TokenCounter((words(read),))},
    )
    wish = request(prompt="kiln " * 75, may_degrade=True, config={"name": "dear"})
    assert accepted(decide(arrival(wish), fresh_state(), world, NOW_MS)).config.label == label


def test_a_text_that_cannot_have_too_many_is_not_counted() -> None:
    silent = Encoder(count=lambda _: pytest.fail("counted"), read=77, marks=2)
    assert TokenCounter((silent,)).too_many("a" * 75) is None
    with pytest.raises(BaseException, match="counted"):
        TokenCounter((silent,)).too_many("ä" * 75)


@pytest.mark.parametrize("piece", ["kiln ", "a", "日本", "\u3000x", " "])
def test_what_is_far_too_long_is_not_counted_to_its_end(piece: str) -> None:
    """Who sends such would else take milliseconds of everybody's time, for nothing."""
    counted: list[str] = []

    def bytes_of(text: str) -> int:
        counted.append(text)
        return len(text.encode()) + 2

    problem = TokenCounter((Encoder(bytes_of, read=77, marks=2),)).too_many(piece * 20_000)
    assert problem == "far more than 75 tokens, and the model reads 75 (77 with its 2 marks)"
    assert sum(map(len, counted)) < 500


def test_what_is_a_little_too_long_is_counted_whole_wherever_it_is_cut() -> None:
    """A piece ends between words: within one it would have more tokens than it has."""

    def letters_of_half_words(text: str) -> int:
        return sum(1 if word in {"watercolour", "of"} else len(word) for word in text.split()) + 2

    counter = TokenCounter((Encoder(letters_of_half_words, read=77, marks=2),))
    assert counter.too_many("watercolour " * 75) is None
    assert (counter.too_many("watercolour of " * 40) or "").startswith("80 tokens")

import hypothesis.strategies as st
from hypothesis import given

from gpu_consumer.models.shapes.draw import caption, scenes
from gpu_consumer.models.shapes.words import encode, merges, tokenizer, words
from gpu_consumer.models.tokenizer import CONTEXT, WORD_END


def test_words_are_single_tokens_and_unknown_ones_still_have_tokens() -> None:
    tokens = tokenizer()
    for scene in scenes():
        sentence = caption(scene)
        assert len(tokens(sentence).input_ids) == len(sentence.split()) + 2 <= CONTEXT
    strange = "a 緑 dodecahedron"
    assert tokens.decode(tokens(strange).input_ids, skip_special_tokens=True).strip() == strange


def test_every_word_is_there_once() -> None:
    assert {"red", "star", "left", "background", "orange", "an"} <= set(words())
    assert len(words()) == len(set(words()))


@given(st.lists(st.text("abc", min_size=1, max_size=6), unique=True, max_size=12))
def test_any_vocabulary_gets_one_token_a_word(vocabulary: list[str]) -> None:
    ranks = {pair: rank for rank, pair in enumerate(merges(vocabulary))}
    for word in vocabulary:
        assert encode([*word[:-1], word[-1] + WORD_END], ranks) == [word + WORD_END]

from gpu_consumer.models.shapes.draw import caption, scenes
from gpu_consumer.models.shapes.words import tokenizer, words
from gpu_consumer.models.tokenizer import CONTEXT


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

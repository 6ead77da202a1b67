"""The words of the sentences, one token each; any other word is spelled in bytes."""

import itertools
from typing import Any

from gpu_consumer.models.shapes.draw import caption, scenes
from gpu_consumer.models.tokenizer import CONTEXT, END, START, WORD_END, byte_alphabet

Pair = tuple[str, str]


def words() -> list[str]:
    """Every word of every sentence, by first use."""
    return list(dict.fromkeys(word for scene in scenes() for word in caption(scene).split()))


def merges(vocabulary: list[str]) -> list[Pair]:
    """Pairs, the first first, under which byte-pair encoding makes one token of each word.

    Each word is first put together as far as the pairs so far do it; what is left gets pairs of its own. They come
    last, so they cannot change a word before.
    """
    ranks: dict[Pair, int] = {}
    for word in vocabulary:
        # Anew after each pair, as a pair may occur in a word more than once.
        while len(symbols := encode([*word[:-1], word[-1] + WORD_END], ranks)) > 1:
            ranks[symbols[0], symbols[1]] = len(ranks)
    return list(ranks)


def encode(symbols: list[str], ranks: dict[Pair, int]) -> list[str]:
    """Byte-pair encoding: join the pair of the lowest rank until none is known."""
    symbols = list(symbols)
    while known := [pair for pair in itertools.pairwise(symbols) if pair in ranks]:
        left, right = min(known, key=ranks.__getitem__)
        at = next(n for n in range(len(symbols)) if symbols[n : n + 2] == [left, right])
        symbols[at : at + 2] = [left + right]
    return symbols


def tokenizer() -> Any:
    """A transformers CLIPTokenizer: 256 bytes, 256 word ends, the pairs and two specials, in that order."""
    from transformers import CLIPTokenizer

    alphabet = byte_alphabet()
    pairs = merges(words())
    symbols = [*alphabet, *(symbol + WORD_END for symbol in alphabet), *(left + right for left, right in pairs)]
    numbers = {symbol: number for number, symbol in enumerate([*dict.fromkeys(symbols), START, END])}
    return CLIPTokenizer(vocab=numbers, merges=pairs, model_max_length=CONTEXT)

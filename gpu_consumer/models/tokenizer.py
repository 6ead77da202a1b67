"""Tokenizers that need no download: CLIP's, an alphabet of bytes and pairs for words that prompts use, and T5's."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Pair = tuple[str, str]

CONTEXT = 77  # positions a CLIP text encoder has
T5_CONTEXT = 512  # as the real one says of itself
WORD_END = "</w>"
START, END = "<|startoftext|>", "<|endoftext|>"

# One token each, as in a real vocabulary, so that an everyday prompt fits into 77 tokens.
_WORDS = """
    a an the of in on at by to with and or under over behind between from into for
    red orange yellow green blue purple pink brown black white grey gold silver
    small large big tiny old new bright dark warm cold soft quiet tall round
    circle square triangle star cross ring heart left right top bottom centre
    cat dog horse bird fish fox owl bear whale flower tree forest mountain river lake sea beach city street house
    bridge castle tower window door table chair lamp book bowl cup boat train car ship moon sun star sky cloud rain
    snow night morning evening autumn winter summer spring light shadow fog storm fire water stone glass wood paper
    photo painting watercolour drawing sketch poster portrait landscape still life style detail background picture
"""
WORDS = tuple(dict.fromkeys(_WORDS.split()))


def byte_alphabet() -> list[str]:
    """The printable stand-ins for bytes of byte-level BPE (GPT-2's table): itself if printable, else from 256 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    shifted = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + shifted.index(byte)) for byte in range(256)]


def merges(vocabulary: Iterable[str]) -> list[Pair]:
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


def encode(symbols: Sequence[str], ranks: Mapping[Pair, int]) -> list[str]:
    """Byte-pair encoding: join the pair of the lowest rank until none is known."""
    joined = list(symbols)
    while known := [pair for pair in pairwise(joined) if pair in ranks]:
        left, right = min(known, key=ranks.__getitem__)
        at = next(n for n in range(len(joined)) if joined[n : n + 2] == [left, right])
        joined[at : at + 2] = [left + right]
    return joined


def clip_tokenizer(vocabulary: Iterable[str] = WORDS) -> Any:
    """A transformers CLIPTokenizer, one token a word of `vocabulary`; any other word is spelled in bytes.

    256 bytes, 256 word ends, the pairs and two specials, in that order.
    """
    from transformers import CLIPTokenizer

    alphabet = byte_alphabet()
    pairs = merges(vocabulary)
    symbols = [*alphabet, *(symbol + WORD_END for symbol in alphabet), *(left + right for left, right in pairs)]
    numbers = {symbol: number for number, symbol in enumerate([*dict.fromkeys(symbols), START, END])}
    return CLIPTokenizer(vocab=numbers, merges=pairs, model_max_length=CONTEXT)


def t5_tokenizer() -> Any:
    """A transformers T5Tokenizer: the same words, letters for the others, and unknown tokens for what is no ASCII."""
    from transformers import T5Tokenizer

    # Unigram: of all ways to cut a text the one with the highest sum of scores, so a word beats its letters.
    specials = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    letters = [(chr(code), -4.0) for code in range(ord("!"), ord("~") + 1)]
    pieces = [*specials, ("▁", -2.0), *((f"▁{word}", -1.0) for word in WORDS), *letters]
    return T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=T5_CONTEXT)

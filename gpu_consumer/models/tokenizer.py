"""A CLIP tokenizer that needs no download: the alphabet of bytes, and merges for words that prompts use."""

from typing import Any

CONTEXT = 77  # positions a CLIP text encoder has
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


def byte_alphabet() -> list[str]:
    """The printable stand-ins for bytes of byte-level BPE (GPT-2's table): itself if printable, else from 256 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    shifted = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + shifted.index(byte)) for byte in range(256)]


def _merges() -> list[tuple[str, str]]:
    """Left to right through each word: t+h, th+e</w>. Ordered by first use, which is their priority."""
    merges: dict[tuple[str, str], None] = {}
    for word in dict.fromkeys(_WORDS.split()):
        symbols = [*word[:-1], word[-1] + WORD_END]
        while len(symbols) > 1:
            merges[symbols[0], symbols[1]] = None
            symbols[:2] = [symbols[0] + symbols[1]]
    return list(merges)


def clip_tokenizer() -> Any:
    """A transformers CLIPTokenizer with 256 bytes, 256 word ends, the merges and two specials, in that order."""
    from transformers import CLIPTokenizer

    alphabet = byte_alphabet()
    merges = _merges()
    symbols = [*alphabet, *(symbol + WORD_END for symbol in alphabet), *(left + right for left, right in merges)]
    vocabulary = {symbol: number for number, symbol in enumerate([*dict.fromkeys(symbols), START, END])}
    return CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=CONTEXT)

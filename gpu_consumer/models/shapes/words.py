"""The words of the sentences, one token each; any other word is spelled in bytes."""

from typing import Any

from gpu_consumer.models.shapes.draw import caption, scenes
from gpu_consumer.models.tokenizer import clip_tokenizer


def words() -> list[str]:
    """Every word of every sentence, by first use."""
    return list(dict.fromkeys(word for scene in scenes() for word in caption(scene).split()))


def tokenizer() -> Any:
    return clip_tokenizer(words())

"""Texts as the model hears them, encoded in full buckets and kept: many requests share one, negative ones mostly."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import torch

from gpu_consumer.engine.account import Account
from gpu_consumer.engine.faults import Trouble, trouble
from gpu_consumer.engine.stepwise.families.base import Rows, StepFamily
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.loading import Loaded


class Texts:
    """A text's rows depend on the text and the bucket alone, so keeping them changes no picture."""

    def __init__(self, loaded: Loaded, family: StepFamily, shape: Shape, kept: int) -> None:
        self._loaded = loaded
        self._family = family
        self._shape = shape
        self._kept = max(kept, 2 * shape.bucket)  # a whole step's texts, positive and negative
        self._known: OrderedDict[str, Rows] = OrderedDict()
        self._ahead: dict[str, None] = {}

    def hint(self, texts: Iterable[str]) -> None:
        """These will be needed soon."""
        room = self._kept - len(self._ahead)
        new = [text for text in dict.fromkeys(texts) if text not in self._known and text not in self._ahead]
        self._ahead.update(dict.fromkeys(new[:room]))

    @property
    def bucket_ahead(self) -> bool:
        """As many are hinted at as one run encodes."""
        return len(self._ahead) >= self._shape.bucket

    @property
    def any_ahead(self) -> bool:
        return bool(self._ahead)

    def missing(self, texts: Iterable[str]) -> list[str]:
        return [text for text in dict.fromkeys(texts) if text not in self._known]

    def encode_ahead(self, account: Account) -> None:
        """One bucket of what was hinted at. A text that fails is left for the request that brings it."""
        batch = list(self._ahead)[: self._shape.bucket]
        for text in batch:
            del self._ahead[text]
        self._keep(self._encode(batch, {}, account)[0])

    def get(self, wanted: Mapping[str, Sequence[str]], account: Account) -> tuple[dict[str, Rows], dict[str, Trouble]]:
        """The rows of each text, and why where there are none. Encodes what is missing, and fills up with hints.

        `wanted`: each text, with the keys of those who want it.
        Raises torch.OutOfMemoryError, faults.Sticky.
        """
        rows = {text: self._known[text] for text in wanted if text in self._known}
        for text in rows:
            self._known.move_to_end(text)
        failed: dict[str, Trouble] = {}
        missing = self.missing(wanted)
        while missing:
            batch, missing = missing[: self._shape.bucket], missing[self._shape.bucket :]
            hints = [text for text in self._ahead if text not in batch][: self._shape.bucket - len(batch)]
            made, spoiled = self._encode([*batch, *hints], wanted, account)
            for text in (*batch, *hints):
                self._ahead.pop(text, None)
            rows |= made
            failed |= spoiled
            self._keep(made)
        return rows, failed

    def _keep(self, made: Mapping[str, Rows]) -> None:
        self._known.update(made)
        while len(self._known) > self._kept:
            self._known.popitem(last=False)

    def _encode(
        self, texts: Sequence[str], wanted: Mapping[str, Sequence[str]], account: Account
    ) -> tuple[dict[str, Rows], dict[str, Trouble]]:
        """Halves a batch that fails until the bad text is alone."""
        keys = list(dict.fromkeys(key for text in texts for key in wanted.get(text, ())))
        try:
            with account.stage("text"):
                return account.device.run("text", keys, lambda: self._run(texts)), {}
        except Exception as error:
            found = trouble(error)
        if found.out_of_memory:
            raise torch.OutOfMemoryError(found.message)
        if len(texts) == 1:
            return {}, {texts[0]: found}
        half = len(texts) // 2
        made, failed = self._encode(texts[:half], wanted, account)
        more, spoiled = self._encode(texts[half:], wanted, account)
        return made | more, failed | spoiled

    def _run(self, texts: Sequence[str]) -> dict[str, Rows]:
        padded = [*texts, *[texts[-1]] * (self._shape.bucket - len(texts))]
        # Unguided: the same encoder hears positive and negative texts, and here each is asked for by itself.
        encoded = self._loaded.family.encode(self._loaded.pipe, padded, padded, False)
        rows = self._family.condition(encoded, len(padded), self._shape)
        # Cloned: a view would keep its whole bucket alive for as long as one text of it is kept.
        return {
            text: {name: tensor[n : n + 1].clone() for name, tensor in rows.items()} for n, text in enumerate(texts)
        }

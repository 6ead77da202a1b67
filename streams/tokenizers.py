"""The tokenizers of models, read from their folders: what counts tokens as the GPU consumer's own will.

By the library that does it there, without transformers or torch.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC, Lowercase, Replace
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import ByteLevel, Split
from tokenizers.pre_tokenizers import Sequence as PreTokenizers
from tokenizers.processors import RobertaProcessing

from admission.tokens import Encoder, TokenCounter
from schemas.catalogue import ConfigCatalogue
from schemas.config import Family
from schemas.errors import CatalogueError
from schemas.families import FAMILY_LIMITS

log = logging.getLogger(__name__)

_NUMBERS: Final = ("", "_2", "_3")
_READ_MAX: Final = 1 << 20  # a tokenizer that knows no limit says 10^30

# How CLIP cuts a text into words (its published tokenizer, as transformers makes it of vocab.json and merges.txt).
_CLIP_WORDS: Final = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_START, _END = "<|startoftext|>", "<|endoftext|>"


def load_counters(folder: Path, configs: ConfigCatalogue) -> dict[str, TokenCounter]:
    """Model name -> its counter, for each model of `configs` whose folder is there. Those that are not are logged, in
    one line: their prompts are not counted. Blocks while it reads. Raises CatalogueError."""
    counters: dict[str, TokenCounter] = {}
    for name, family in _models(configs).items():
        counter = _counter(folder / name, family)
        if counter is not None:
            counters[name] = counter
    if missing := not_counted(configs, counters):
        log.warning(
            "no tokenizers in %s for %s: their prompts are not counted; warnings in results tell what was left out",
            folder,
            ", ".join(missing),
        )
    return counters


def more_counters(folder: Path, configs: ConfigCatalogue, known: Mapping[str, TokenCounter]) -> dict[str, TokenCounter]:
    """Those that are `known`, and those of further models whose folder is there by now. A folder that cannot be read is
    logged, and nothing more: what runs must not stand for it. Blocks while it reads."""
    counters = dict(known)
    for name, family in _models(configs).items():
        try:
            counter = None if name in known else _counter(folder / name, family)
        except CatalogueError as error:
            log.warning("%s; until then the prompts of model %s are not counted", error, name)
        else:
            if counter is not None:
                log.info("tokenizers of %s: its prompts are counted from now on", name)
                counters[name] = counter
    return counters


def not_counted(configs: ConfigCatalogue, counters: Mapping[str, TokenCounter]) -> list[str]:
    """The names of models without a counter."""
    return sorted(_models(configs).keys() - counters.keys())


def _models(configs: ConfigCatalogue) -> dict[str, Family]:
    return {config.model.name: config.family for file in configs.files.values() for config in file.versions.values()}


def _counter(model: Path, family: Family) -> TokenCounter | None:
    index = _json(model / "model_index.json")
    encoders = []
    for number in _NUMBERS:
        name = f"tokenizer{number}"
        # Nobody reads for an encoder that was left out, as T5 may be. A folder of tokenizers alone has no index.
        heard = not index or index.get(f"text_encoder{number}") not in (None, [None, None])
        if heard and (model / name).is_dir():
            encoders.append(_encoder(model / name, FAMILY_LIMITS[family].tokens_max.get(name)))
    return TokenCounter(tuple(encoders)) if encoders else None


def _encoder(folder: Path, read_max: int | None) -> Encoder:
    told = _json(folder / "tokenizer_config.json").get("model_max_length")
    if not isinstance(told, int | float) or not 0 < told <= _READ_MAX:
        raise CatalogueError(f"{folder} does not say how much the model reads; set model_max_length in its config")
    try:
        tokenizer = _tokenizer(folder)
    except Exception as error:  # the library raises Exception itself
        raise CatalogueError(f"{folder} is no tokenizer ({error}); fetch the right files") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        return len(tokenizer.encode(text).ids)

    return Encoder(count=count, read=min(int(told), read_max or int(told)), marks=count(""))


def _tokenizer(folder: Path) -> Any:
    whole = folder / "tokenizer.json"
    if whole.is_file():
        return Tokenizer.from_file(str(whole))
    tokenizer = Tokenizer(
        BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"), end_of_word_suffix="</w>", unk_token=_END)
    )
    tokenizer.normalizer = Normalizers([NFC(), Replace(Regex(r"\s+"), " "), Lowercase()])
    tokenizer.pre_tokenizer = PreTokenizers(
        [Split(Regex(_CLIP_WORDS), behavior="removed", invert=True), ByteLevel(add_prefix_space=False)]
    )
    tokenizer.add_special_tokens([_START, _END])
    start, end = (tokenizer.token_to_id(mark) for mark in (_START, _END))
    assert start is not None
    assert end is not None
    tokenizer.post_processor = RobertaProcessing(
        (_END, end), (_START, start), trim_offsets=False, add_prefix_space=False
    )
    return tokenizer


def _json(path: Path) -> Mapping[str, Any]:
    """Empty where there is no such file."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CatalogueError(f"{path} cannot be read ({error}); fetch the right files") from error
    if not isinstance(found, dict):
        raise CatalogueError(f"{path} is no JSON object; fetch the right files")
    return found

"""The pipeline engine in this process, for tests: a batch run to its end, and its pictures encoded."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_consumer.engine import stages
from gpu_consumer.engine.account import Account
from gpu_consumer.engine.encoder import encoded
from gpu_consumer.engine.faults import Trouble
from gpu_consumer.engine.pipeline import PipelineEngine
from gpu_consumer.engine.protocol import Flaw, Item, Picture, Share
from gpu_consumer.engine.sessions.base import Decoded, Wanted
from schemas.config import GenerationConfig


@dataclass(frozen=True, slots=True)
class Finished:
    """One of `items` is a picture or a flaw, in the order in which they were sent."""

    pictures: tuple[Picture, ...]
    flaws: tuple[Flaw, ...]
    timings: Mapping[str, float]
    peak_vram_bytes: int
    bucket: int


def run_whole(engine: PipelineEngine, config: GenerationConfig, *items: Item) -> Finished:
    account = Account(engine._device, config.bucket)
    results = engine.run(config, items, account)
    loaded, _ = engine._residence.take(config)
    pictures, flaws = [], []
    for item in items:
        result = results[item.key]
        if isinstance(result, Trouble):
            flaws.append(Flaw(item.key, result.code, result.message))
            continue
        cut = stages.warnings(loaded, item)
        picture = encoded(Decoded(Wanted(item, config), result.pixels, result.bucket, cut, Share())).outcome
        assert isinstance(picture, Picture)
        pictures.append(picture)
    return Finished(tuple(pictures), tuple(flaws), account.timings, account.peak_bytes, account.bucket)


def digests(finished: Finished) -> dict[str, str]:
    return {picture.key: hashlib.sha256(picture.data).hexdigest() for picture in finished.pictures}

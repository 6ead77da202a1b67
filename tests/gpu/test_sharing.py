"""One copy of the weights on a card for two processes."""

import hashlib
from pathlib import Path

import pytest

from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.protocol import Batch, Item
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.engine.team import EngineTeam
from tests.streaming import Heard, run
from tests.tiny import models, tiny_config

__all__ = ["models"]

ITEMS = tuple(Item(f"item {n}", f"a circle, number {n}", "blurred", n) for n in range(8))


@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3"])
async def test_a_team_on_a_card_draws_what_one_process_draws(models: Path, family: str) -> None:
    settings = EngineSettings(models_directory=models, device="cuda")
    config = tiny_config(models, family, dtype="float16")
    one, team = EngineProcess(settings, [config]), EngineTeam(settings, [config], workers=2)
    try:
        await one.start()
        expected = [
            picture.data
            for items in (ITEMS[:4], ITEMS[4:])
            for _, picture in sorted((await run(one, config, *items)).pictures.items())
        ]
    finally:
        await one.stop()
    try:
        await team.start()
        pids = team.pids
        heard = Heard(team)
        await team.submit(Batch(config, ITEMS))
        await heard.until_ended(item.key for item in ITEMS)
    finally:
        await team.stop()
    drawn = [picture.data for _, picture in sorted(heard.pictures.items())]
    assert [hashlib.sha256(each).hexdigest() for each in drawn] == [
        hashlib.sha256(each).hexdigest() for each in expected
    ]
    left = [path for pid in pids for path in Path("/dev/shm").glob(f"torch_{pid}_*")]  # noqa: ASYNC240
    assert not left

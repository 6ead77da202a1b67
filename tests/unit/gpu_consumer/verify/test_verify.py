"""Drawing again, and what the command makes of it, with an engine that does what it is told."""

import hashlib
from pathlib import Path

import pytest

from gpu_consumer.commands.verify import _verify, verify
from gpu_consumer.engine.protocol import Flaw, Item, Picture
from gpu_consumer.engine.settings import EngineSettings
from gpu_consumer.verify.draw import Drawer
from gpu_consumer.verify.wish import Wish
from schemas.config import GenerationConfig
from schemas.errors import CommandError
from schemas.result import Artifact, Succeeded
from tests.scripted import ScriptedEngine
from tests.unit.gpu_consumer.verify.test_wish import catalogue, result, used_of
from tests.unit.gpu_consumer.work import config

SETTINGS = EngineSettings(models_directory=Path("models"))
HERE, AWAY = config(), config(name="away", model={"name": "away", "digest": "sha256:" + "1" * 64})


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    made = ScriptedEngine()
    made.missing = {"away"}
    monkeypatch.setattr("gpu_consumer.verify.draw.EngineProcess", lambda *_: made)
    return made


def items(count: int, prompt: str = "a cat") -> list[Item]:
    return [Item(str(n), prompt, "", n) for n in range(count)]


def made_of(name: str, used: GenerationConfig, prompt: str, folder: Path, *, tampered: bool = False) -> Succeeded:
    """A result as the scripted engine makes one, and its picture in the store."""
    drawn = f"{used.config_hash}/{prompt}/7".encode()
    (folder / name).write_bytes(b"tampered" if tampered else drawn)
    artifact = Artifact(
        uri=(folder / name).as_uri(), sha256=hashlib.sha256(drawn).hexdigest(), bytes=len(drawn),
        content_type="image/png", width=64, height=64, seed=7,
    )  # fmt: skip
    return result(request_id=name, job_id=name, config=used_of(used), artifacts=(artifact,), seed=7)


async def verified(wishes: dict[str, str], *results: Succeeded) -> int:
    asked = {job: Wish(prompt, "") for job, prompt in wishes.items()}
    return await _verify(results, asked, catalogue(HERE, AWAY), SETTINGS, 2)


@pytest.mark.usefixtures("engine")
async def test_more_pictures_than_a_bucket_come_in_their_order() -> None:
    async with Drawer(SETTINGS) as drawer:
        drawn = await drawer.regenerate(HERE, items(9), 4)
        assert [one.data[-2:] for one in drawn if isinstance(one, Picture)] == [f"/{n}".encode() for n in range(9)]
        (blank,) = await drawer.regenerate(HERE, items(1, "blank"), 4)
        assert isinstance(blank, Flaw)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("bucket", [0, -1, 5, 10**9])
async def test_a_bucket_that_the_config_never_had_is_refused(bucket: int) -> None:
    async with Drawer(SETTINGS) as drawer:
        with pytest.raises(CommandError, match=f"bucket of {bucket}, but sketch@1 has none larger than 4") as raised:
            await drawer.regenerate(HERE, items(1), bucket)
    assert raised.value.code == 2


async def test_what_was_refused_says_nothing_of_the_next(engine: ScriptedEngine) -> None:
    async with Drawer(SETTINGS) as drawer:
        with pytest.raises(CommandError, match="cannot be drawn here: there is no away"):
            await drawer.regenerate(AWAY, items(9), 4)  # three batches, each refused by an event of its own
        drawn = await drawer.regenerate(HERE, items(9), 4)
        assert all(isinstance(one, Picture) for one in drawn)
    assert engine.starts == 1


async def test_an_engine_that_died_of_one_draws_the_next(engine: ScriptedEngine) -> None:
    async with Drawer(SETTINGS) as drawer:
        with pytest.raises(CommandError, match="killed by a picture"):
            await drawer.regenerate(HERE, items(1, "poison"), 4)
        assert isinstance((await drawer.regenerate(HERE, items(1), 4))[0], Picture)
    assert engine.starts == 2


@pytest.mark.usefixtures("engine")
async def test_one_that_cannot_be_told_hides_nothing_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = made_of("bad", HERE, "a cat", tmp_path, tampered=True)
    away, good = made_of("away", AWAY, "a cat", tmp_path), made_of("good", HERE, "a cat", tmp_path)
    unknown = made_of("unknown", config(name="unknown"), "a cat", tmp_path)
    prompts = dict.fromkeys(("bad", "away", "unknown", "good"), "a cat")
    assert await verified(prompts, bad, away, unknown, good) == 1
    told = capsys.readouterr().out.split("blue/")[1:]
    assert "different: what lies at" in told[0]
    assert "cannot: away@1 cannot be drawn here: there is no away" in told[1]
    assert "cannot: the result was drawn with unknown@1" in told[2]
    assert "identical" in told[3]
    assert await verified(prompts, away, good) == 2
    assert await verified(prompts, good) == 0


async def test_a_batch_that_had_to_be_smaller_is_noted(
    engine: ScriptedEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or its picture, which is of another bucket, would be called another's."""
    engine.bucket_max = 2
    one = made_of("one", HERE, "a cat", tmp_path)
    assert await verified({"one": "a cat"}, one) == 0
    assert "note: the batch did not fit here and was drawn in a bucket of 2" in capsys.readouterr().out


@pytest.mark.parametrize(("variable", "value"), [("KILN_GPU_LANE_WEIGHTS", "no json"), ("KILN_GPU_THREADS", "0")])
def test_a_setting_that_is_refused_does_not_read_as_a_picture_that_differs(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(CommandError, match="KILN_GPU_") as refusal:
        verify("-")
    assert refusal.value.code == 2

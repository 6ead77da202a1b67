"""What both sessions promise, over tiny models: bytes, costs, leaving, and what is left where memory runs out."""

import gc
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_consumer.engine.protocol import Flaw, Item, Refused
from gpu_consumer.engine.sessions.base import Session
from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig
from tests.sessions import Crowded, Failing, Place, drawn, ends, finish, pictures, wanted
from tests.tiny import models, tiny_config

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

ITEMS = tuple(Item(key, f"picture {key}", "grey" if key in "bd" else "", n) for n, key in enumerate("abcd"))


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=["step", "whole"])
def config(request: pytest.FixtureRequest, models: Path) -> GenerationConfig:
    return tiny_config(models, batching=request.param)


def bytes_of(place: Place, config: GenerationConfig, *items: Item) -> dict[str, bytes]:
    session = place.open(config)
    return {key: one.data for key, one in pictures(finish(session, wanted(config, *items))).items()}


@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3", "animatediff"])
def test_both_give_the_same_files(models: Path, family: str) -> None:
    place = Place(models)
    step, whole = (bytes_of(place, tiny_config(models, family, batching=how), *ITEMS) for how in ("step", "whole"))
    assert len(set(step.values())) == len(ITEMS)
    assert step == whole


def test_each_is_drawn_and_ends_once_and_pays_its_part(models: Path, config: GenerationConfig) -> None:
    place = Place(models)
    session = place.open(config)
    outcomes = finish(session, wanted(config, *ITEMS))
    assert sorted(drawn(outcomes)) == sorted(ends(outcomes)) == list("abcd")
    shares = [one.share for one in ends(outcomes).values()]
    assert {share.batch_size for share in shares} == {4}
    assert {share.bucket for share in shares} == {4}
    for share in shares:
        assert share.timings.keys() == {"text", "denoise", "decode", "encode"}
        assert all(seconds > 0 for seconds in share.timings.values())
        assert share.gpu_seconds == pytest.approx(sum(share.timings[of] for of in ("text", "denoise", "decode")))
        assert share.gpu_seconds == pytest.approx(shares[0].gpu_seconds, rel=0.01)
        assert share.peak_vram_bytes == place.residence.weights_bytes + session.peak_bytes
    assert session.peak_bytes == config.bucket * config.price.vram_bytes


def test_how_many_steps_are_made_is_seen_after_each(models: Path, config: GenerationConfig) -> None:
    seen: list[dict[str, int]] = []
    session: Session = Place(models).open(config, lambda: seen.append(dict(session.made)))
    finish(session, wanted(config, *ITEMS[:2]))
    assert seen[: config.steps - 1] == [dict.fromkeys("ab", n) for n in range(1, config.steps)] != []


def test_no_step_is_told_of_those_of_a_batch_that_wait_for_the_others(models: Path) -> None:
    config = tiny_config(models, batching="whole")
    device = Failing()
    seen: list[dict[str, int]] = []
    session: Session = Place(models, device).open(config, lambda: seen.append(dict(session.made)))
    device.most = 2
    outcomes = finish(session, wanted(config, *ITEMS))
    counts = range(1, config.steps + 1)
    first = [{"a": n, "b": n, "c": 0, "d": 0} for n in counts]
    assert seen == [*first, *({"a": config.steps, "b": config.steps, "c": n, "d": n} for n in counts)]
    assert {one.share.batch_size for one in ends(outcomes).values()} == {2}


def test_nothing_of_a_picture_stays_on_the_device_after_its_end(models: Path, config: GenerationConfig) -> None:
    place = Place(models)
    latents: list[weakref.ref[torch.Tensor]] = []
    real = place.residence.take(config)[0].family.decode

    def decode(pipe: Any, batch: torch.Tensor) -> torch.Tensor:
        latents.append(weakref.ref(batch))
        images: torch.Tensor = real(pipe, batch)
        latents.append(weakref.ref(images))
        return images

    loaded, _ = place.residence.take(config)
    loaded.family = replace(loaded.family, decode=decode)
    session = place.open(config)
    outcomes = finish(session, wanted(config, *ITEMS))
    gc.collect()
    assert [found() for found in latents] == [None] * len(latents) != []
    assert len(pictures(outcomes)) == 4


def test_a_prompt_that_is_cut_is_said_so(models: Path, config: GenerationConfig) -> None:
    # case DIF-04
    made = pictures(finish(Place(models).open(config), wanted(config, Item("a", "x" * 200, "", 0), ITEMS[1])))
    assert [len(made[key].warnings) for key in "ab"] == [1, 0]


def test_who_leaves_ends_before_the_next_step_and_pays_for_the_time_it_was_there(
    models: Path, config: GenerationConfig
) -> None:
    place = Place(models)
    expected = bytes_of(place, config, *ITEMS)
    gone = []
    steps = 0

    def on_step() -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            gone.append(session.leave("b"))

    session: Session = place.open(config, on_step)
    outcomes = finish(session, wanted(config, *ITEMS))
    (left,) = gone
    assert left is not None
    assert (left.key, left.outcome) == ("b", None)
    assert left.share.timings.keys() >= {"text", "denoise"}
    assert 0 < left.share.gpu_seconds < ends(outcomes)["a"].share.gpu_seconds
    assert {key: one.data for key, one in pictures(outcomes).items()} == {key: expected[key] for key in "acd"}
    assert session.leave("b") is None


def test_when_all_have_left_no_further_step_is_made(models: Path, config: GenerationConfig) -> None:
    long = GenerationConfig.model_validate({**config.model_dump(), "steps": 50})
    steps = 0

    def on_step() -> None:
        nonlocal steps
        steps += 1
        for item in ITEMS:
            assert session.leave(item.key) is not None

    place = Place(models)
    session: Session = place.open(long, on_step)
    session.join(wanted(long, *ITEMS))
    assert session.step() == []
    assert steps == 1
    assert session.idle
    assert bytes_of(place, config, *ITEMS)


@pytest.mark.parametrize("stage", ["text", "denoise", "decode"])
def test_what_does_not_fit_is_run_in_a_smaller_bucket_from_then_on(
    models: Path, config: GenerationConfig, stage: str
) -> None:
    # case DIF-14
    expected = bytes_of(Place(models), GenerationConfig.model_validate({**config.model_dump(), "bucket": 2}), *ITEMS)
    device = Failing()
    place = Place(models, device)
    session = place.open(config)
    device.stage, device.most = stage, 2
    outcomes = finish(session, wanted(config, *ITEMS))
    assert {key: one.data for key, one in pictures(outcomes).items()} == expected
    assert {one.bucket for one in pictures(outcomes).values()} == {2}
    assert {one.share.bucket for one in ends(outcomes).values()} == {2}
    assert sorted(drawn(outcomes)) == list("abcd")
    assert session.slots == 2
    assert place.open(config).slots == 2


@pytest.mark.parametrize("stage", ["text", "denoise", "decode"])
def test_one_that_does_not_even_fit_alone_fails_and_the_bucket_is_as_it_was(
    models: Path, config: GenerationConfig, stage: str
) -> None:
    # case DIF-14
    device = Failing()
    place = Place(models, device)
    session = place.open(config)
    device.stage, device.poison = stage, "c"
    outcomes = finish(session, wanted(config, *ITEMS))
    assert sorted(pictures(outcomes)) == ["a", "b", "d"]
    flaw = ends(outcomes)["c"].outcome
    assert isinstance(flaw, Flaw)
    assert flaw.code == "out_of_memory"
    assert flaw.message.count("does not fit into the device's memory") == 1
    assert place.open(config).slots == 4


def test_no_more_slots_are_granted_than_are_predicted_to_fit(models: Path, config: GenerationConfig) -> None:
    dear = config.model_copy(update={"price": config.price.model_copy(update={"vram_bytes": 100 << 20})})
    place = Place(models, Failing(300 << 20))
    session = place.open(dear)
    assert session.slots == 2
    assert len(pictures(finish(session, wanted(dear, *ITEMS)))) == 4


@pytest.mark.parametrize("stage", ["denoise", "decode"])
def test_what_is_measured_is_of_the_bucket_that_fitted(models: Path, config: GenerationConfig, stage: str) -> None:
    """A batch that runs out of memory peaks at all there was, and says nothing of the smaller one that fits."""
    device = Failing()
    place = Place(models, device)
    session = place.open(config)
    device.stage, device.most = stage, 2
    finish(session, wanted(config, *ITEMS))
    assert (session.peak_slots, session.peak_bytes) == (2, 2 * config.price.vram_bytes)


def test_nothing_is_learned_of_a_batch_that_one_has_left(models: Path) -> None:
    """What did not fit may have been the one that left."""
    config = tiny_config(models, steps=20)
    device = Failing()
    place = Place(models, device)
    session = place.open(config)
    device.poison = "c"
    session.join(wanted(config, *ITEMS))
    session.step()
    assert session.slots == 2
    assert session.leave("c") is not None
    assert sorted(pictures(finish(session))) == ["a", "b", "d"]
    assert place.open(config).slots == 4


def test_memory_that_a_neighbour_took_is_nobodys_fault(models: Path, config: GenerationConfig) -> None:
    """Case GPU-13: what runs is asked for again later, and no limit is learned."""
    device = Crowded()
    place = Place(models, device)
    session = place.open(config)
    session.join(wanted(config, *ITEMS))
    device.come()
    outcomes = finish(session)
    refused = [key for outcome in outcomes if isinstance(outcome, Refused) for key in outcome.keys]
    assert sorted(refused) == list("abcd")
    assert not ends(outcomes)
    with pytest.raises(ModelUnavailable, match="others on the device"):
        place.open(config)
    device.go()
    session = place.open(config)
    assert session.slots == 4
    assert sorted(pictures(finish(session, wanted(config, *ITEMS)))) == list("abcd")


@pytest.mark.parametrize("stage", ["text", "denoise", "decode"])
def test_tries_that_failed_are_paid_for_too(models: Path, config: GenerationConfig, stage: str) -> None:
    device = Failing()
    session = Place(models, device).open(config)
    device.stage, device.most, device.seconds = stage, 2, 0.5
    shares = [one.share for one in ends(finish(session, wanted(config, *ITEMS))).values()]
    assert sum(share.timings[stage] for share in shares) > device.seconds
    assert sum(share.gpu_seconds for share in shares) > device.seconds


def test_what_fails_beside_the_batch_is_no_fault_of_it(models: Path, config: GenerationConfig) -> None:
    def on_step() -> None:
        raise ValueError("our own")

    session = Place(models).open(config, on_step)
    session.join(wanted(config, *ITEMS))
    with pytest.raises(ValueError, match="our own"):
        session.step()


def test_a_neighbour_that_is_gone_before_the_batch_ends_is_seen(models: Path, config: GenerationConfig) -> None:
    """Case GPU-13"""
    device = Crowded()
    place = Place(models, device)
    session = place.open(config)
    session.join(wanted(config, *ITEMS))
    device.come()
    tidied = place.residence.tidy

    def tidy() -> None:
        """With it goes the neighbour, when all four ran out of memory even alone."""
        tidied()
        tries.append(None)
        if len(tries) == 7:
            device.go()

    tries: list[None] = []
    place.residence.tidy = tidy  # type: ignore[method-assign]
    outcomes = finish(session)
    refused = [key for outcome in outcomes if isinstance(outcome, Refused) for key in outcome.keys]
    assert sorted([*refused, *pictures(outcomes)]) == list("abcd")


def test_what_could_never_fit_is_found_out_and_said_of_the_item(models: Path, config: GenerationConfig) -> None:
    dear = config.model_copy(update={"price": config.price.model_copy(update={"vram_bytes": 1 << 40})})
    (end,) = ends(finish(Place(models).open(dear), wanted(dear, ITEMS[0]))).values()
    assert isinstance(end.outcome, Flaw)
    assert end.outcome.code == "out_of_memory"


def test_a_small_batch_ends_when_a_larger_one_fits_again(models: Path) -> None:
    """Or a neighbour that came and went would have halved what is made for as long as there is work."""
    config = tiny_config(models)
    device = Crowded()
    place = Place(models, device)
    place.residence.take(config)
    device.neighbour = device.free_bytes() - 3 * config.price.vram_bytes
    session = place.open(config)
    assert session.slots == 2
    session.join(wanted(config, *ITEMS[:2]))
    device.go()
    outcomes = finish(session)
    assert sorted(pictures(outcomes)) == ["a", "b"]
    assert session.spent
    assert place.open(config).slots == 4


def test_a_bad_seed_fails_alone(models: Path, config: GenerationConfig) -> None:
    place = Place(models)
    expected = bytes_of(place, config, *ITEMS[:3])
    bad = replace(ITEMS[3], seed=2**64)
    outcomes = finish(place.open(config), wanted(config, ITEMS[0], bad, *ITEMS[1:3]))
    flaw = ends(outcomes)["d"].outcome
    assert isinstance(flaw, Flaw)
    assert flaw.code == "generation_error"
    assert {key: one.data for key, one in pictures(outcomes).items()} == expected


def test_items_of_one_kind_may_differ_in_what_is_each_ones_own(models: Path) -> None:
    # case DIF-07
    place = Place(models)
    configs = [
        tiny_config(models, steps=3),
        tiny_config(models, steps=5, scheduler="euler", image_format="webp"),
        tiny_config(models, guidance_scale=1.0, image_format="jpeg"),
        tiny_config(models, guidance_scale=9.0, scheduler="unipc", quality=50),
    ]
    assert len({config.kind for config in configs}) == 1
    mixed = [one for config, item in zip(configs, ITEMS, strict=True) for one in wanted(config, item)]
    together = pictures(finish(place.open(configs[0]), mixed))
    assert [together[key].extension for key in "abcd"] == ["png", "webp", "jpg", "png"]
    for config, item in zip(configs, ITEMS, strict=True):
        assert bytes_of(place, config, item) == {item.key: together[item.key].data}


def test_a_model_that_cannot_step_says_what_to_set(models: Path) -> None:
    place = Place(models)
    loaded, _ = place.residence.take(tiny_config(models))
    loaded.family = replace(loaded.family, pipeline_class="PixArtAlphaPipeline")
    with pytest.raises(ValueError, match="set batching: whole"):
        place.open(tiny_config(models))

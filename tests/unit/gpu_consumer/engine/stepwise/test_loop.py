"""The life of a request in the step loop, over a tiny model: joining, leaving, ending, and what a fault costs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_consumer.engine.device import CpuDevice
from gpu_consumer.engine.faults import Sticky
from gpu_consumer.engine.stepwise.loop import Stepwise
from gpu_consumer.engine.stepwise.request import Shape
from gpu_consumer.models.loading import Loaded
from tests.stepwise import SHAPE, by_key, failed, finish, fresh, loaded, made, request, sha256, stepwise
from tests.tiny import models

__all__ = ["models"]

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

POISON = "poison"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def engine(models: Path) -> Stepwise:
    return stepwise(loaded(models))


def test_each_has_its_own_steps_and_frees_its_slot_when_they_are_done(engine: Stepwise) -> None:
    engine.join([request("short", steps=1), request("long", steps=4)])
    assert engine.free_slots == 1
    engine.step()
    assert engine.free_slots == 2
    engine.join([request("late", steps=1), request("later", steps=3)])
    assert engine.free_slots == 0
    assert set(finish(engine)) == {"short", "long", "late", "later"}
    assert engine.steps == 4
    assert (engine.idle, engine.free_slots) == (True, SHAPE.bucket)


def test_a_full_bucket_of_the_drawn_is_decoded_at_once(engine: Stepwise) -> None:
    engine.join([request("long", steps=9), request("a", steps=1), request("b", steps=1)])
    assert engine.step() == []  # two of three: they wait for company
    engine.join([request("c", steps=1)])
    assert list(by_key(engine.step())) == ["a", "b", "c"]


def test_the_drawn_do_not_wait_for_company_for_ever(models: Path) -> None:
    engine = stepwise(loaded(models), decode_wait_steps=2)
    engine.join([request("long", steps=9), request("a", steps=1)])
    assert [list(by_key(engine.step())) for _ in range(3)] == [[], [], ["a"]]


def test_who_is_alone_is_decoded_at_once(engine: Stepwise) -> None:
    engine.join([request("a", steps=1)])
    assert list(by_key(engine.step())) == ["a"]


def test_smaller_decodes_empty_the_queue_as_fast_as_it_fills(models: Path) -> None:
    engine = stepwise(loaded(models), decode_bucket=1)
    engine.join([request("long", steps=3), request("a", steps=1), request("b", steps=1)])
    assert list(by_key(engine.step())) == ["a", "b"]


@pytest.mark.parametrize("when", ["before a step", "half way", "drawn"])
def test_who_leaves_is_gone_before_the_next_step_and_costs_the_others_nothing(engine: Stepwise, when: str) -> None:
    # case DIF-23
    alone = finish_one(engine)
    engine.join(
        [request("gone", steps=9 if when == "half way" else 1), request("long", steps=7), request("a", steps=7)]
    )
    for _ in range({"before a step": 0, "half way": 2, "drawn": 1}[when]):
        assert engine.step() == []
    gone = engine.leave("gone")
    assert gone is not None
    assert (gone.bill.gpu_seconds > 0) == (when != "before a step")
    assert engine.free_slots == 1
    assert engine.leave("gone") is None
    engine.join([request("next", seed=5)])
    ended = finish(engine)
    assert set(ended) == {"long", "a", "next"}
    assert sha256(made(ended["next"])) == alone


def finish_one(engine: Stepwise) -> str:
    engine.join([request("next", seed=5)])
    return sha256(made(finish(engine)["next"]))


def test_every_part_of_a_request_changes_its_picture(engine: Stepwise) -> None:
    # case DIF-05, DIF-07, DIF-11
    variants = [
        request("0"),
        request("1", prompt="a blue circle"),
        request("2", negative="blurred"),
        request("3", seed=1),
        request("4", guidance_scale=1.0),
        request("5", guidance_scale=9.0),
        request("6", scheduler="ddim"),
        request("7", steps=4),
    ]
    waiting = list(variants)

    def feed(_: int) -> None:
        joining = [waiting.pop(0) for _ in range(min(engine.free_slots, len(waiting)))]
        engine.join(joining)

    ended = finish(engine, feed)
    assert len({sha256(made(ended[variant.key])) for variant in variants}) == len(variants)


def test_unguided_the_negative_prompt_is_not_heard(engine: Stepwise) -> None:
    engine.join([request("a", guidance_scale=1.0), request("b", negative="blurred", guidance_scale=1.0)])
    ended = finish(engine)
    assert sha256(made(ended["a"])) == sha256(made(ended["b"]))


def test_the_seconds_of_a_step_are_shared_by_those_in_it(engine: Stepwise) -> None:
    engine.join([request("short", steps=1), request("long", steps=6)])
    ended = finish(engine)
    shares = {key: made(one).request.bill.gpu_seconds for key, one in ended.items()}
    assert 0 < shares["short"] < shares["long"]
    assert sum(shares.values()) == pytest.approx(sum(engine.timings.values()), rel=0.1)


def listen(model: Loaded) -> list[list[str]]:
    """What the text encoder is given from here on, a list a run."""
    heard: list[list[str]] = []

    def encode(real: Any) -> Any:
        def wrapped(pipe: Any, texts: list[str], *rest: Any) -> Any:
            heard.append(texts)
            return real(pipe, texts, *rest)

        return wrapped

    spoil(model, encode=encode)
    return heard


def test_a_text_is_encoded_once_however_many_ask_for_it(models: Path) -> None:
    model = fresh(models)
    heard = listen(model)
    engine = stepwise(model)
    engine.join([request("a"), request("b", seed=1)])
    finish(engine)
    engine.join([request("c", seed=2)])
    finish(engine)
    assert heard == [["a red circle", "", ""]]


def test_a_hint_is_encoded_before_it_is_needed_where_that_costs_nothing(models: Path) -> None:
    model = fresh(models)
    heard = listen(model)
    engine = stepwise(model)
    engine.join([request("a", prompt="x", steps=4)])
    engine.hint([request("b", prompt="y")])
    engine.step()
    assert heard == [["x", "", "y"]]  # there was room in the run
    engine.hint([request("c", prompt="1"), request("d", prompt="2")])
    engine.step()
    assert len(heard) == 1  # less than a bucket, and something else to do
    engine.hint([request("e", prompt="3")])
    engine.step()
    assert heard[1:] == [["1", "2", "3"]]
    engine.join([request("b", prompt="y"), request("c", prompt="1")])
    finish(engine)
    assert len(heard) == 2


def test_kept_texts_are_bounded(models: Path) -> None:
    engine = stepwise(loaded(models), texts_kept=1)
    for n in range(9):
        engine.join([request("a", prompt=str(n), steps=1)])
        finish(engine)
    assert len(engine._texts._known) == 2 * SHAPE.bucket


# Faults: in a text, a step, a scheduler, a decode. The guilty one fails, and the others have the bytes they always had.


def spoil(model: Loaded, **changes: Callable[[Any], Any]) -> None:
    model.family = replace(
        model.family, **{name: change(getattr(model.family, name)) for name, change in changes.items()}
    )


def _text_fault(model: Loaded) -> None:
    def encode(real: Any) -> Any:
        def wrapped(pipe: Any, texts: list[str], *rest: Any) -> Any:
            if POISON in texts:
                raise ValueError("no such word")
            return real(pipe, texts, *rest)

        return wrapped

    spoil(model, encode=encode)


def _model_fault(model: Loaded) -> None:
    """The model stumbles over the one whose conditioning is that of the poison."""
    heard = model.family.encode(model.pipe, [POISON] * SHAPE.bucket, [""] * SHAPE.bucket, False)["prompt_embeds"][0]
    real = model.pipe.unet.forward

    def forward(latents: Any, timesteps: Any, *, encoder_hidden_states: Any, **rest: Any) -> Any:
        n = next((n for n, row in enumerate(encoder_hidden_states) if torch.equal(row, heard)), None)
        if n is not None and bool(latents[n].any()):
            raise ValueError("no kernel for this number")
        return real(latents, timesteps, encoder_hidden_states=encoder_hidden_states, **rest)

    model.pipe.unet.forward = forward


def _decoder_fault(model: Loaded) -> None:
    _decoder_gives(model, None)


def _decoder_gives(model: Loaded, value: float | None) -> None:
    """The decoder fails on, or spoils, what a colourless beginning leads to: the latents of `poison`."""
    engine = stepwise(model)
    engine.join([request("bad", prompt=POISON)])
    target = made(finish(engine)["bad"]).latents

    def decode(real: Any) -> Any:
        def wrapped(pipe: Any, latents: torch.Tensor) -> torch.Tensor:
            images: torch.Tensor = real(pipe, latents)
            for n, row in enumerate(latents):
                if torch.equal(row, target[0]):
                    if value is None:
                        raise ValueError("cannot decode this")
                    images[n] = value
            return images

        return wrapped

    spoil(model, decode=decode)


FAULTS: list[tuple[Callable[[Loaded], None], str, str]] = [
    (_text_fault, "generation_error", "no such word"),
    (_model_fault, "generation_error", "no kernel"),
    (_decoder_fault, "generation_error", "cannot decode"),
    (lambda model: _decoder_gives(model, float("nan")), "non_finite", "NaN"),
    (lambda model: _decoder_gives(model, 0.5), "blank_output", "single colour"),
]


@pytest.mark.parametrize(("fault", "code", "words"), FAULTS, ids=["text", "model", "decoder", "nan", "blank"])
def test_the_guilty_one_fails_and_its_neighbours_have_the_same_bytes(
    models: Path, fault: Callable[[Loaded], None], code: str, words: str
) -> None:
    # case DIF-13
    model = fresh(models)
    good = [request("a", prompt="a cat", seed=1), request("b", prompt="a dog", seed=2)]
    healthy = stepwise(model)
    healthy.join(good)
    expected = {key: sha256(made(one)) for key, one in finish(healthy).items()}
    fault(model)
    engine = stepwise(model)
    engine.join([good[0], request("bad", prompt=POISON), good[1]])
    ended = finish(engine)
    flaw = failed(ended.pop("bad")).flaw
    assert (flaw.key, flaw.code) == ("bad", code)
    assert words in flaw.message
    assert {key: sha256(made(one)) for key, one in ended.items()} == expected


def test_what_overflows_in_half_precision_is_decoded_again_in_float32(models: Path) -> None:
    # case DIF-13
    model = fresh(models, dtype="bfloat16")

    rows = []

    def decode(real: Any) -> Any:
        def wrapped(pipe: Any, latents: torch.Tensor) -> torch.Tensor:
            images: torch.Tensor = real(pipe, latents)
            rows.append((pipe.vae.dtype, len(latents)))
            return images if pipe.vae.dtype == torch.float32 else images * torch.inf

        return wrapped

    spoil(model, decode=decode)
    engine = stepwise(model)
    engine.join([request("a"), request("b", seed=1)])
    ended = finish(engine)
    assert sha256(made(ended["a"])) != sha256(made(ended["b"]))
    assert model.pipe.vae.dtype == torch.bfloat16
    # One by one: a full bucket in float32 takes twice the memory that was there for it.
    assert rows == [(torch.bfloat16, engine.shape.bucket), (torch.float32, 1), (torch.float32, 1)]


def test_a_seed_that_is_none_fails_alone(engine: Stepwise) -> None:
    engine.join([request("a"), request("bad", seed=2**64)])
    ended = finish(engine)
    assert failed(ended["bad"]).flaw.code == "generation_error"
    made(ended["a"])


def test_out_of_memory_loses_nobody(models: Path) -> None:
    # case DIF-14
    device = CpuDevice(2 << 20)
    engine = stepwise(loaded(models), device=device, item_bytes=1 << 20)
    requests = [request("a"), request("b", seed=1)]
    engine.join(requests)
    with pytest.raises(torch.OutOfMemoryError):
        engine.step()
    assert engine.evict() == requests
    assert engine.idle
    smaller = stepwise(loaded(models), Shape(64, 64, 2), device, item_bytes=1 << 20)
    smaller.join(requests)
    assert set(finish(smaller)) == {"a", "b"}
    assert smaller.peak_bytes == 2 << 20


def test_a_lost_device_is_said_at_once(models: Path) -> None:
    model = fresh(models)

    def forward(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    model.pipe.unet.forward = forward
    engine = stepwise(model)
    engine.join([request("a"), request("b")])
    with pytest.raises(Sticky):
        engine.step()


def test_a_model_without_a_step_family_is_refused_in_a_sentence(models: Path) -> None:
    model = fresh(models)
    spoil(model, pipeline_class=lambda _: "SomethingElse")
    with pytest.raises(ValueError, match="set batching: whole"):
        stepwise(model)
    consistency = fresh(models)
    consistency.pipe.unet.register_to_config(time_cond_proj_dim=8)
    with pytest.raises(ValueError, match="consistency model"):
        stepwise(consistency)

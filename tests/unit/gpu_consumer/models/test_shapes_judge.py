import random
from dataclasses import astuple

import numpy as np
import pytest

from gpu_consumer.models.shapes.draw import PALETTE, PIXELS, PLACES, Scene, draw, scenes
from gpu_consumer.models.shapes.judge import look


def drawn(scene: Scene, chance: random.Random) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    shift = (chance.uniform(-0.04, 0.04), chance.uniform(-0.04, 0.04))
    return draw(scene, shift=shift, stretch=chance.uniform(0.93, 1.07))


def test_what_was_drawn_is_seen() -> None:
    chance = random.Random(0)
    for scene in chance.sample(scenes(), 600):
        seen = look(drawn(scene, chance))
        assert seen is not None
        found = Scene(seen.shape, seen.colour, seen.background, scene.size, seen.place)
        assert astuple(found) == astuple(scene)


def test_noise_and_a_wrong_tone_do_not_change_what_is_seen() -> None:
    chance, noise = random.Random(1), np.random.default_rng(1)
    for scene in chance.sample(scenes(), 200):
        picture = drawn(scene, chance).astype(float) + noise.normal(0, 8, (PIXELS, PIXELS, 3)) + noise.normal(0, 8, 3)
        seen = look(picture.clip(0, 255).astype(np.uint8))
        assert seen is not None
        assert (seen.colour, seen.background, seen.place) == (scene.colour, scene.background, scene.place)


@pytest.mark.parametrize("place", PLACES)
def test_the_centre_of_mass_is_measured_in_widths(place: str) -> None:
    seen = look(draw(Scene("circle", "red", "white", "small", place)))
    assert seen is not None
    assert (seen.x, seen.y) == pytest.approx(PLACES[place], abs=0.01)
    assert seen.area == pytest.approx(np.pi * 0.16**2, rel=0.05)


@pytest.mark.parametrize("levels", [0, 3])
def test_a_plain_picture_shows_nothing(levels: int) -> None:
    plain = np.full((PIXELS, PIXELS, 3), PALETTE["blue"], dtype=np.uint8)
    noise = np.random.default_rng(0).integers(-levels, levels + 1, plain.shape)
    assert look((plain.astype(int) + noise).clip(0, 255).astype(np.uint8)) is None


def test_a_larger_shape_has_a_larger_share() -> None:
    areas = [seen.area for size in ("small", "", "large") if (seen := look(draw(Scene("star", "red", "white", size))))]
    assert len(areas) == 3
    assert areas == sorted(set(areas))


def test_pictures_of_another_size_are_judged_alike() -> None:
    scene = Scene("heart", "yellow", "purple", "large", "right")
    seen, large = look(draw(scene)), look(draw(scene).repeat(2, axis=0).repeat(2, axis=1))
    assert seen is not None
    assert large is not None
    assert (large.shape, large.colour, large.place) == (seen.shape, seen.colour, seen.place)
    assert (large.x, large.y) == pytest.approx((seen.x, seen.y), abs=0.01)

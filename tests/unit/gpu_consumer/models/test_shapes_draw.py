import numpy as np
import pytest

from gpu_consumer.models.shapes.draw import (
    PALETTE,
    PIXELS,
    PLACES,
    SHAPES,
    SIZES,
    Scene,
    caption,
    draw,
    held_out,
    lesson,
    scenes,
)

STAR = Scene("star", "red", "blue", "large", "left")


@pytest.mark.parametrize(
    ("scene", "sentence"),
    [
        (STAR, "a large red star on the left on a blue background"),
        (Scene("ring", "orange", "orange", "small", "top"), "a small orange ring at the top on an orange background"),
        (Scene("cross", "orange", "white"), "an orange cross in the centre on a white background"),
    ],
)
def test_a_sentence_says_all_that_is_on_a_picture(scene: Scene, sentence: str) -> None:
    assert caption(scene) == sentence


def test_what_may_go_without_saying_can_be_left_out() -> None:
    assert caption(Scene("heart", "red", "white"), say_centre=False, say_background=False) == "a red heart"
    assert caption(STAR, say_centre=False, say_background=False) == "a large red star on the left"


def test_every_scene_has_a_sentence_of_its_own() -> None:
    every = scenes()
    assert len(every) == len(SHAPES) * len(PALETTE) * (len(PALETTE) - 1) * len(SIZES) * len(PLACES)
    assert len({caption(scene) for scene in every}) == len(every)
    assert 0.09 < sum(map(held_out, every)) / len(every) < 0.16


@pytest.mark.parametrize("shape", SHAPES)
def test_a_picture_is_its_two_colours_smoothed_only_at_the_edge(shape: str) -> None:
    picture = draw(Scene(shape, "red", "blue"))
    assert picture.shape == (PIXELS, PIXELS, 3)
    assert picture.dtype == np.uint8
    red, blue = ((picture == PALETTE[name]).all(axis=2) for name in ("red", "blue"))
    assert red.sum() > 100
    assert blue.sum() > 2500
    assert (red | blue).mean() > 0.95


def test_a_ring_has_a_hole_and_a_shift_moves_the_shape() -> None:
    ring = draw(Scene("ring", "black", "white"))
    assert tuple(ring[PIXELS // 2, PIXELS // 2]) == PALETTE["white"]
    circle = draw(Scene("circle", "black", "white"))
    moved = draw(Scene("circle", "black", "white"), shift=(4 / PIXELS, 0.0))
    assert np.array_equal(moved[:, 4:], circle[:, :-4])


def test_a_lesson_is_seeded_and_keeps_to_what_it_may_show() -> None:
    pictures, sentences = lesson(40, 7, held_out)
    again, sentences_again = lesson(40, 7, held_out)
    assert np.array_equal(pictures, again)
    assert sentences == sentences_again
    assert sentences != lesson(40, 8, held_out)[1]
    allowed = {
        caption(scene, say_centre=centre, say_background=background)
        for scene in scenes()
        if held_out(scene)
        for centre in (True, False)
        for background in (True, False)
    }
    assert set(sentences) <= allowed


def test_a_lesson_longer_than_the_scenes_goes_round() -> None:
    pictures, sentences = lesson(5, 0, lambda scene: scene == STAR)
    assert len(pictures) == 5
    assert {sentence.split(" on a ")[0] for sentence in sentences} == {"a large red star on the left"}
    assert len({picture.tobytes() for picture in pictures}) == 5

"""Two configurations side by side."""

import io

import numpy as np
import pytest
from PIL import Image

from gpu_consumer.engine.protocol import Flaw, Picture
from gpu_consumer.sheets import lettering
from gpu_consumer.sheets.comparison import Side, comparison_sheet

RED, BLUE = (200, 30, 30), (30, 30, 200)


def picture(colour: tuple[int, int, int], *, side: int = 64) -> Picture:
    output = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(output, "PNG")
    return Picture("k", output.getvalue(), "image/png", "png", side, side, 1)


def shown(sheet: bytes) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    with Image.open(io.BytesIO(sheet)) as image:
        return np.asarray(image.convert("RGB"))


def centre(pixels: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]", colour: tuple[int, int, int]) -> tuple[int, int]:
    rows, columns = np.nonzero((pixels == colour).all(axis=2))
    return int(rows.mean()), int(columns.mean())


def test_each_side_has_its_pictures_beside_those_of_the_same_prompt() -> None:
    reds, blues = [[picture(RED)], [picture(RED, side=512)]], [[picture(BLUE)]] * 2
    sides = [Side("a@1", ["one"], reds), Side("b@1", ["one", "two"], blues)]
    pixels = shown(comparison_sheet(["a red star 🌸", "桜 " * 300], sides))
    (red_row, red_column), (blue_row, blue_column) = centre(pixels, RED), centre(pixels, BLUE)
    assert red_column < blue_column
    assert abs(red_row - blue_row) <= 1
    areas = [(pixels == colour).all(axis=2).sum() for colour in (RED, BLUE)]
    assert areas[0] == areas[1], "a small picture and a large one have the same place"


def test_what_is_told_of_one_side_ends_before_the_other() -> None:
    long = "so many MiB of the device at its peak, weights and all; its file says fewer a picture beside the weights"

    def sheet(told: str) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
        return shown(
            comparison_sheet(["a"], [Side("a", [told], [[picture(RED)]]), Side("b", ["x"], [[picture(BLUE)]])])
        )

    pixels, short = sheet(long), sheet("x")
    left = centre(pixels, BLUE)[1] - 96
    between = pixels[:, left - 24 : left]
    assert (between == between[0, 0]).all(), "paper between the sides"
    assert len(pixels) > len(short), "it goes on in lines of its own"


def test_what_failed_has_a_place_and_a_reason() -> None:
    flaw = Flaw("k", "blank_output", "every pixel is the same")
    pixels = shown(comparison_sheet(["a"], [Side("a@1", [], [[flaw]]), Side("b@1", [], [[picture(BLUE)]])]))
    assert (pixels == BLUE).all(axis=2).any()
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 3, "text on paper"


def test_without_the_fonts_of_the_demo_there_is_text_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lettering, "find_spec", lambda name: None)
    lettering._font.cache_clear()
    try:
        pixels = shown(comparison_sheet(["a red star 桜"], [Side("a@1", ["figures"], [[picture(RED)]])]))
    finally:
        lettering._font.cache_clear()
    ink = pixels[:, :200].reshape(-1, 3).min()
    assert ink < 100

"""Pictures drawn in code, and the sentences that say what is on them: one shape, its place, a plain background."""

import hashlib
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

PIXELS = 64  # a side
_OVERSAMPLING = 4  # drawn larger and made smaller, which smooths the edges

Colour = tuple[int, int, int]
Point = tuple[float, float]

# Far enough apart that a decoder's error of some tens of levels does not turn one into another.
PALETTE: Mapping[str, Colour] = {
    "red": (214, 36, 44),
    "orange": (242, 132, 26),
    "yellow": (250, 216, 50),
    "green": (40, 160, 72),
    "blue": (44, 88, 220),
    "purple": (140, 52, 176),
    "black": (20, 20, 24),
    "white": (248, 248, 248),
}
SIZES: Mapping[str, float] = {"small": 0.16, "": 0.215, "large": 0.27}  # the radius, in widths of the picture
PLACES: Mapping[str, Point] = {  # the centre, in widths from the upper left corner
    "left": (0.28, 0.5),
    "right": (0.72, 0.5),
    "top": (0.5, 0.28),
    "bottom": (0.5, 0.72),
    "centre": (0.5, 0.5),
}
_PHRASES = {
    "left": "on the left",
    "right": "on the right",
    "top": "at the top",
    "bottom": "at the bottom",
    "centre": "in the centre",
}


def _turned(count: int, radii: Sequence[float]) -> list[Point]:
    """`count` points clockwise from the top, their distances from the middle taken from `radii` in turn."""
    return [
        (
            radii[n % len(radii)] * math.sin(math.tau * n / count),
            -radii[n % len(radii)] * math.cos(math.tau * n / count),
        )
        for n in range(count)
    ]


def _heart() -> list[Point]:
    angles = [math.tau * n / 48 for n in range(48)]
    return [
        (math.sin(a) ** 3, -(13 * math.cos(a) - 5 * math.cos(2 * a) - 2 * math.cos(3 * a) - math.cos(4 * a)) / 15)
        for a in angles
    ]


_ARM = 0.32
_OUTLINES: Mapping[str, Sequence[Point]] = {
    "circle": _turned(48, [1.0]),
    "square": [(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)],
    "triangle": [(0, -1.0), (1.0, 0.85), (-1.0, 0.85)],
    "star": _turned(10, [1.1, 0.45]),
    "cross": [
        (-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
        (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM),
    ],
    "ring": _turned(48, [1.0]),
    "heart": _heart(),
}  # fmt: skip
_HOLES: Mapping[str, Sequence[Point]] = {"ring": _turned(48, [0.5])}
SHAPES = tuple(_OUTLINES)


@dataclass(frozen=True, slots=True)
class Scene:
    """What is on a picture. `size` "" is the middle one, and `place` "centre" may go without saying."""

    shape: str
    colour: str
    background: str
    size: str = ""
    place: str = "centre"


def scenes() -> list[Scene]:
    """Every picture there is a sentence for, in one order: 5,880."""
    return [
        Scene(shape, colour, background, size, place)
        for shape, colour, background, size, place in itertools.product(SHAPES, PALETTE, PALETTE, SIZES, PLACES)
        if colour != background
    ]


def caption(scene: Scene, *, say_centre: bool = True, say_background: bool = True) -> str:
    """ "a large red star on the left on a blue background"."""
    shape = [word for word in (scene.size, scene.colour, scene.shape) if word]
    words = [_article(shape[0]), *shape]
    if scene.place != "centre" or say_centre:
        words.append(_PHRASES[scene.place])
    if say_background:
        words += ["on", _article(scene.background), scene.background, "background"]
    return " ".join(words)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def held_out(scene: Scene) -> bool:
    """Whether training never sees `scene`: one in eight, chosen by its sentence."""
    return hashlib.sha256(caption(scene).encode()).digest()[0] % 8 == 0


def draw(scene: Scene, *, shift: Point = (0.0, 0.0), stretch: float = 1.0) -> NDArray[np.uint8]:
    """The picture, (PIXELS, PIXELS, 3); `shift` in widths moves the shape, `stretch` multiplies its radius."""
    side = PIXELS * _OVERSAMPLING
    image = Image.new("RGB", (side, side), PALETTE[scene.background])
    pen = ImageDraw.Draw(image)
    radius = SIZES[scene.size] * stretch * side
    x, y = ((at + by) * side for at, by in zip(PLACES[scene.place], shift, strict=True))
    for outlines, colour in ((_OUTLINES, scene.colour), (_HOLES, scene.background)):
        if scene.shape in outlines:
            pen.polygon([(x + radius * u, y + radius * v) for u, v in outlines[scene.shape]], fill=PALETTE[colour])
    return np.asarray(image.resize((PIXELS, PIXELS), Image.Resampling.BOX))


def lesson(count: int, seed: int, keep: Callable[[Scene], bool]) -> tuple[NDArray[np.uint8], list[str]]:
    """`count` pictures and their sentences: scenes that `keep` accepts, each a little elsewhere and a little larger.

    Some sentences leave out the place of a shape in the centre, and some the background.
    """
    rng = random.Random(seed)  # noqa: S311 — a lesson needs no secret
    kept = [scene for scene in scenes() if keep(scene)]
    pictures: list[NDArray[np.uint8]] = []
    sentences: list[str] = []
    while len(pictures) < count:
        for scene in rng.sample(kept, min(len(kept), count - len(pictures))):
            shift = (rng.uniform(-0.04, 0.04), rng.uniform(-0.04, 0.04))
            pictures.append(draw(scene, shift=shift, stretch=rng.uniform(0.93, 1.07)))
            sentences.append(caption(scene, say_centre=rng.random() < 0.5, say_background=rng.random() < 0.9))
    return np.stack(pictures), sentences

"""What is on a picture, read off its pixels alone: the two colours, where the shape is, and which it is."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gpu_consumer.models.shapes.draw import PALETTE, PLACES, SHAPES, Scene, draw

_FAINT = (
    48.0  # levels from the background, over three channels: less is a decoder's noise, and no palette is this close
)
_GRID = 24  # shapes are compared in a frame of this many cells a side

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Seen:
    """`x` and `y` are the shape's centre of mass and `area` its share, all in widths of the picture."""

    shape: str
    colour: str
    background: str
    place: str
    x: float
    y: float
    area: float


def look(picture: NDArray[np.uint8]) -> Seen | None:
    """What `picture`, (height, width, 3), shows; None where nothing stands out from the background."""
    pixels = picture.astype(np.float64)
    height, width, _ = pixels.shape
    background = _name(_border_colour(pixels))
    distance = np.linalg.norm(pixels - _border_colour(pixels), axis=2)
    # The shape's own distance, not the maximum, which one stray pixel would decide.
    usual = float(np.percentile(distance, 98))
    if usual < _FAINT:
        return None
    mask: Mask = distance > usual / 2  # half way: the middle of a smoothed edge
    rows, columns = np.nonzero(mask)
    x, y = float(columns.mean() + 0.5) / width, float(rows.mean() + 0.5) / height
    return Seen(
        shape=_shape(mask),
        colour=_name(np.median(pixels[distance > usual * 0.8], axis=0)),
        background=background,
        place=min(PLACES, key=lambda place: (PLACES[place][0] - x) ** 2 + (PLACES[place][1] - y) ** 2),
        x=x,
        y=y,
        area=float(mask.mean()),
    )


def _border_colour(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median of the outermost two pixels: a shape covers less than half of them wherever it is."""
    edge = np.ones(pixels.shape[:2], dtype=bool)
    edge[2:-2, 2:-2] = False
    return np.asarray(np.median(pixels[edge], axis=0))


def _name(colour: NDArray[np.float64]) -> str:
    return min(PALETTE, key=lambda name: float(np.linalg.norm(colour - PALETTE[name])))


def _framed(mask: Mask) -> Mask:
    """The part of `mask` that holds the shape, stretched to _GRID x _GRID."""
    rows, columns = np.nonzero(mask)
    part = mask[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    image = Image.fromarray(part.astype(np.uint8) * 255).resize((_GRID, _GRID), Image.Resampling.BILINEAR)
    return np.asarray(image) > 127


@cache
def _references() -> dict[str, Mask]:
    drawn = {shape: draw(Scene(shape, "black", "white", "large")) for shape in SHAPES}
    return {shape: _framed(picture.mean(axis=2) < 128) for shape, picture in drawn.items()}


def _shape(mask: Mask) -> str:
    """The one whose drawing overlaps most: intersection over union."""
    framed = _framed(mask)
    return max(SHAPES, key=lambda s: (framed & _references()[s]).sum() / (framed | _references()[s]).sum())

"""The contact sheet: every picture with its prompt, config, seed and tenant."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from gpu_consumer.sheets.lettering import Lettering
from gpu_consumer.sheets.still import GREY, INK, PAPER, place, still

_COLUMNS = 8
_PICTURE = 160  # pixels; the tiny models draw 64, enlarged without smoothing so that their own pixels are seen
_TEXT = 78
_GAP = 14


@dataclass(frozen=True, slots=True)
class Picture:
    """One cell of the sheet."""

    data: bytes
    prompt: str
    config: str
    seed: int
    tenant: str
    content_type: str = "image/png"
    frames: int = 1


def contact_sheet(pictures: Sequence[Picture]) -> bytes:
    """A PNG of all pictures in rows of eight. Empty input gives an empty sheet."""
    rows = max(1, -(-len(pictures) // _COLUMNS))
    cell_width, cell_height = _PICTURE + _GAP, _PICTURE + _TEXT + _GAP
    sheet = Image.new("RGB", (_COLUMNS * cell_width + _GAP, rows * cell_height + _GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    body, small = Lettering(draw, 12), Lettering(draw, 10)
    for number, picture in enumerate(pictures):
        x = _GAP + number % _COLUMNS * cell_width
        y = _GAP + number // _COLUMNS * cell_height
        image = still(picture.data, picture.content_type, picture.frames)
        place(sheet, image, (x, y), _PICTURE, video=picture.frames > 1)
        y += _PICTURE + 4
        for line in body.wrap(picture.prompt, _PICTURE, 3):
            body.write(x, y, line, INK)
            y += body.line
        small.write(x, y + 1, f"{picture.tenant} · {picture.config} · seed {picture.seed}", GREY)
    output = io.BytesIO()
    sheet.save(output, "PNG")
    return output.getvalue()

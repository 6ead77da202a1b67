"""Two configurations side by side: a row a prompt, the same seeds on either side, and what each cost above it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from gpu_consumer.engine.protocol import Flaw, Picture
from gpu_consumer.sheets.lettering import Lettering
from gpu_consumer.sheets.still import GREY, INK, PAPER, place, still

_PICTURE = 192  # pixels
_GAP = 12
_BETWEEN = 36  # the sides
_PROMPT = 220
_LINES = 8  # of a prompt
_SMALL = 12


@dataclass(frozen=True, slots=True)
class Side:
    """`figures` are lines for the head; `rows` has the pictures of each prompt, in its order."""

    title: str
    figures: Sequence[str]
    rows: Sequence[Sequence[Picture | Flaw]]


def comparison_sheet(prompts: Sequence[str], sides: Sequence[Side]) -> bytes:
    """A PNG. Each side has a row for each prompt, and all rows are equally long."""
    columns = len(sides[0].rows[0])
    wide = columns * (_PICTURE + _GAP)
    measure = Lettering(ImageDraw.Draw(Image.new("RGB", (1, 1))), _SMALL)
    heads = [[line for figure in side.figures for line in measure.wrap(figure, wide, _LINES)] for side in sides]
    lines = max(map(len, heads))
    head = 28 + 18 * lines + _GAP
    size = (_PROMPT + 2 * _GAP + len(sides) * (wide + _BETWEEN), head + len(prompts) * (_PICTURE + _GAP) + _GAP)
    sheet = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(sheet)
    title, body, small = Lettering(draw, 18), Lettering(draw, 13), Lettering(draw, _SMALL)
    for row, prompt in enumerate(prompts):
        y = head + row * (_PICTURE + _GAP)
        for line in body.wrap(prompt, _PROMPT - _GAP, _LINES):
            body.write(_GAP, y, line, INK)
            y += body.line
    for number, (side, figures) in enumerate(zip(sides, heads, strict=True)):
        left = _PROMPT + _GAP + number * (wide + _BETWEEN)
        title.write(left, _GAP / 2, side.title, INK)
        for line_number, line in enumerate(figures):
            small.write(left, 30 + 18 * line_number, line, GREY)
        for row, pictures in enumerate(side.rows):
            for column, picture in enumerate(pictures):
                at = (left + column * (_PICTURE + _GAP), head + row * (_PICTURE + _GAP))
                _cell(sheet, small, picture, at)
    output = io.BytesIO()
    sheet.save(output, "PNG")
    return output.getvalue()


def _cell(sheet: Image.Image, text: Lettering, picture: Picture | Flaw, at: tuple[int, int]) -> None:
    if isinstance(picture, Picture):
        image = still(picture.data, picture.content_type, picture.frames)
        place(sheet, image, at, _PICTURE, video=picture.frames > 1)
        return
    x, y = at
    ImageDraw.Draw(sheet).rectangle([x, y, x + _PICTURE - 1, y + _PICTURE - 1], outline=GREY)
    for line in text.wrap(f"{picture.code}: {picture.message}", _PICTURE - _GAP, _LINES):
        text.write(x + _GAP / 2, y + _GAP / 2, line, GREY)
        y += text.line

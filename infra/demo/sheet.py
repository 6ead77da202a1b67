"""The contact sheet: every picture with its prompt, config, seed and tenant."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import av
import manimgx_fonts
import manimgx_fonts_cjk
from PIL import Image, ImageDraw, ImageFont

_COLUMNS = 8
_PICTURE = 160  # pixels; the tiny models draw 64, enlarged without smoothing so that their own pixels are seen
_TEXT = 78
_GAP = 14
_PAPER, _INK, _GREY = "#f7f5f0", "#20201d", "#77736a"

_LATIN = Path(manimgx_fonts.__file__).parent / "NotoSans[wght].ttf"
_EMOJI = Path(manimgx_fonts.__file__).parent / "NotoEmoji[wght].ttf"
_CJK = Path(manimgx_fonts_cjk.__file__).parent / "NotoSansCJK-VF.otf.ttc"


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


def _font_of(character: str) -> Path | None:
    """The font that has the character; None where it is only a modifier, drawn by nobody."""
    code = ord(character)
    if 0xFE00 <= code <= 0xFE0F or code == 0x200D:
        return None
    if code >= 0x1F000 or 0x2600 <= code <= 0x27BF:
        return _EMOJI
    if 0x1100 <= code <= 0x11FF or 0x2E80 <= code <= 0xD7FF or 0xFF00 <= code <= 0xFFEF:
        return _CJK
    return _LATIN


def _regular(path: Path, size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.truetype(str(path), size)
    font.set_variation_by_axes([400])  # the variable fonts start at their thinnest
    return font


class _Type:
    """Text in several scripts at one size."""

    def __init__(self, draw: ImageDraw.ImageDraw, size: int) -> None:
        self._draw = draw
        self._fonts = {path: _regular(path, size) for path in (_LATIN, _EMOJI, _CJK)}
        self.line = round(size * 1.35)

    def width(self, text: str) -> float:
        return sum(self._fonts[font].getlength(each) for each in text if (font := _font_of(each)))

    def write(self, x: float, y: float, text: str, ink: str) -> None:
        baseline = y + self.line * 0.8
        for each in text:
            if font := _font_of(each):
                self._draw.text((x, baseline), each, font=self._fonts[font], fill=ink, anchor="ls")
                x += self._fonts[font].getlength(each)

    def wrap(self, text: str, width: float, lines: int) -> list[str]:
        """At most `lines` lines of `width` pixels, broken at spaces where there are any; an ellipsis where cut."""
        rows = [""]
        for character in text:
            if self.width(rows[-1] + character) <= width:
                rows[-1] += character
                continue
            head, space, tail = rows[-1].rpartition(" ")
            rows[-1:] = [head, tail + character] if space else [rows[-1], character.strip()]
        return rows if len(rows) <= lines else [*rows[: lines - 1], rows[lines - 1][:-1] + "…"]


def _still(picture: Picture) -> Image.Image:
    """The picture, or the frame in the middle of a video."""
    if picture.content_type != "video/mp4":
        with Image.open(io.BytesIO(picture.data)) as image:
            return image.convert("RGB")
    with av.open(io.BytesIO(picture.data), "r") as video:
        frame = next(islice(video.decode(video=0), picture.frames // 2, None))
        still: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
    return still


def contact_sheet(pictures: Sequence[Picture]) -> bytes:
    """A PNG of all pictures in rows of eight. Empty input gives an empty sheet."""
    rows = max(1, -(-len(pictures) // _COLUMNS))
    cell_width, cell_height = _PICTURE + _GAP, _PICTURE + _TEXT + _GAP
    sheet = Image.new("RGB", (_COLUMNS * cell_width + _GAP, rows * cell_height + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    body, small = _Type(draw, 12), _Type(draw, 10)
    for number, picture in enumerate(pictures):
        x = _GAP + number % _COLUMNS * cell_width
        y = _GAP + number // _COLUMNS * cell_height
        image = _still(picture)
        scale = _PICTURE / max(image.size)
        size = (round(image.width * scale), round(image.height * scale))
        enlarged = image.resize(size, Image.Resampling.NEAREST)
        sheet.paste(enlarged, (x + (_PICTURE - size[0]) // 2, y))
        if picture.frames > 1:
            draw.polygon([(x + 6, y + 6), (x + 6, y + 22), (x + 20, y + 14)], fill=_PAPER, outline=_INK)
        y += _PICTURE + 4
        for line in body.wrap(picture.prompt, _PICTURE, 3):
            body.write(x, y, line, _INK)
            y += body.line
        small.write(x, y + 1, f"{picture.tenant} · {picture.config} · seed {picture.seed}", _GREY)
    output = io.BytesIO()
    sheet.save(output, "PNG")
    return output.getvalue()

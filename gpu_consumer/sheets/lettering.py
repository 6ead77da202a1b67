"""Text on a sheet, in the scripts that people write prompts in."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from PIL import ImageDraw, ImageFont

Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont

# Noto, of the extra `demo`. Where it is not installed, Pillow's own font writes what it can.
_LATIN = ("manimgx_fonts", "NotoSans[wght].ttf")
_EMOJI = ("manimgx_fonts", "NotoEmoji[wght].ttf")
_CJK = ("manimgx_fonts_cjk", "NotoSansCJK-VF.otf.ttc")


@cache
def _font(package: str, file: str, size: int) -> Font:
    if find_spec(package) is None:
        return ImageFont.load_default(size)
    font = ImageFont.truetype(str(Path(str(import_module(package).__file__)).parent / file), size)
    font.set_variation_by_axes([400])  # the variable fonts start at their thinnest
    return font


def _script(character: str) -> tuple[str, str] | None:
    """The font that has the character; None where it is only a modifier, drawn by nobody."""
    code = ord(character)
    if 0xFE00 <= code <= 0xFE0F or code == 0x200D:
        return None
    if code >= 0x1F000 or 0x2600 <= code <= 0x27BF:
        return _EMOJI
    if 0x1100 <= code <= 0x11FF or 0x2E80 <= code <= 0xD7FF or 0xFF00 <= code <= 0xFFEF:
        return _CJK
    return _LATIN


class Lettering:
    """Text at one size, in pixels."""

    def __init__(self, draw: ImageDraw.ImageDraw, size: int) -> None:
        self._draw = draw
        self._size = size
        self.line = round(size * 1.35)

    def width(self, text: str) -> float:
        return sum(font.getlength(each) for each in text if (font := self._of(each)))

    def write(self, x: float, y: float, text: str, ink: str) -> None:
        baseline = y + self.line * 0.8
        for each in text:
            if font := self._of(each):
                self._draw.text((x, baseline), each, font=font, fill=ink, anchor="ls")
                x += font.getlength(each)

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

    def _of(self, character: str) -> Font | None:
        script = _script(character)
        return None if script is None else _font(*script, self._size)

"""One picture of a sheet: what a file shows, or the frame in the middle of a video."""

import io
from itertools import islice

import av
from PIL import Image, ImageDraw

PAPER, INK, GREY = "#f7f5f0", "#20201d", "#77736a"


def still(data: bytes, content_type: str, frames: int = 1) -> Image.Image:
    """The picture, in RGB."""
    if content_type != "video/mp4":
        with Image.open(io.BytesIO(data)) as image:
            image.seek(getattr(image, "n_frames", 1) // 2)
            return image.convert("RGB")
    with av.open(io.BytesIO(data), "r") as video:
        frame = next(islice(video.decode(video=0), frames // 2, None))
        made: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
    return made


def place(sheet: Image.Image, image: Image.Image, at: tuple[int, int], side: int, *, video: bool = False) -> None:
    """Paste it into a square of `side` pixels. A smaller one is not smoothed, so that its own pixels are seen."""
    scale = side / max(image.size)
    filtered = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    size = (round(image.width * scale), round(image.height * scale))
    x, y = at
    sheet.paste(image.resize(size, filtered), (x + (side - size[0]) // 2, y))
    if video:
        ImageDraw.Draw(sheet).polygon([(x + 6, y + 6), (x + 6, y + 22), (x + 20, y + 14)], fill=PAPER, outline=INK)

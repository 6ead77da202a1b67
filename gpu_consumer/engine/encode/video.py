"""Frames to H.264 in an MP4 that plays in any browser and starts before it has all arrived, by PyAV.

The same frames give the same bytes: colours are converted in whole numbers, x264 runs on one thread with code that
does not depend on the processor, and neither a time nor a version is written.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.bitstream import BitStreamFilterContext
from av.video.frame import VideoFrame
from numpy.typing import NDArray

# BT.709, limited range, in 1/2^16: rows are Y, Cb and Cr of red, green and blue from 0 to 255.
_BITS = 16
_LUMA, *_CHROMA = np.round(
    np.array(
        [
            [0.2126, 0.7152, 0.0722],
            [-0.2126 / 1.8556, -0.7152 / 1.8556, 0.5],
            [0.5, -0.7152 / 1.5748, -0.0722 / 1.5748],
        ]
    )
    * np.array([[219], [224], [224]])
    / 255
    * (1 << _BITS)
).astype(np.int32)
_BT709 = 1  # for primaries, transfer and matrix alike (ITU-T H.273)
_LIMITED = 1

_X264 = {
    "preset": "medium",
    "threads": "1",
    "flags": "+bitexact",
    "x264-params": "cpu-independent=1:threads=1",
}
_MP4 = {"movflags": "+faststart", "fflags": "+bitexact"}


def encode_mp4(pixels: NDArray[np.uint8], quality: int, frames_per_second: int) -> bytes:
    """`pixels`: (frames, height, width, 3), both sizes even. `quality`: 1 to 100.

    Blocks; safe in any thread.
    """
    _, height, width, _ = pixels.shape
    # In thousandths of a second, the default, a video would end a little early.
    options = {**_MP4, "movie_timescale": str(1000 * frames_per_second)}
    with _seekable() as path:
        with av.open(path, "w", format="mp4", options=options) as file:
            stream = file.add_stream("libx264", rate=frames_per_second, options={**_X264, "crf": str(_crf(quality))})
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            context = stream.codec_context
            context.color_range, context.colorspace = _LIMITED, _BT709
            context.color_primaries, context.color_trc = _BT709, _BT709
            context.time_base = Fraction(1, frames_per_second)
            # A supplement that names x264's version and its options, and nothing a player needs.
            without_version = BitStreamFilterContext("filter_units=remove_types=6", stream)
            for number, frame in enumerate(pixels):
                planes = VideoFrame.from_ndarray(_planes(frame), format="yuv420p")
                planes.pts, planes.time_base = number, context.time_base
                _write(file, without_version, stream.encode(planes))
            _write(file, without_version, [*stream.encode(None), None])
        return Path(path).read_bytes()


def _write(file: Any, bitstream: Any, packets: Any) -> None:
    for packet in packets:
        for filtered in bitstream.filter(packet):
            file.mux(filtered)


def _crf(quality: int) -> int:
    """x264's constant rate factor, the least of 51: 10 at quality 100, where no eye sees a loss, and 14 at 90."""
    return round(51 - 41 * quality / 100)


def _planes(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Y, Cb and Cr of one frame, one after the other: (height * 3 / 2, width). Chroma is the mean of four pixels."""
    colours = frame.astype(np.int32)
    height, width, _ = colours.shape
    fours = colours.reshape(height // 2, 2, width // 2, 2, 3).sum(axis=(1, 3))
    luma = 16 + _rounded(colours @ _LUMA, _BITS)
    planes = [luma, *(128 + _rounded(fours @ row, _BITS + 2) for row in _CHROMA)]
    return np.concatenate([plane.reshape(-1) for plane in planes]).astype(np.uint8).reshape(height * 3 // 2, width)


def _rounded(values: NDArray[np.int32], bits: int) -> NDArray[np.int32]:
    return (values + (1 << (bits - 1))) >> bits


@contextlib.contextmanager
def _seekable() -> Iterator[str]:
    """The path of an empty file that is gone afterwards. Faststart moves the index to the front, so it reads back."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "video.mp4")
        return
    descriptor = os.memfd_create("kiln-video", os.MFD_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)

import numpy as np

from gpu_consumer.engine.protocol import Item, Share
from gpu_consumer.engine.sessions.base import Decoded, Wanted
from gpu_consumer.engine.warm import _answer
from tests.unit.gpu_consumer.engine.test_instant import config


def test_a_known_video_is_known_to_its_last_frame() -> None:
    video = config(family="animatediff", frames=8, image_format="mp4", bucket=2)
    pixels = np.zeros((8, 16, 16, 3), dtype=np.uint8)
    other = pixels.copy()
    other[-1, -1, -1, -1] = 1

    def answer(frames: object, bucket: int = 2) -> str | None:
        return _answer(video, Decoded(Wanted(Item("known", "", "", 0), video), frames, bucket, (), Share()))

    assert answer(pixels) == answer(pixels.copy())
    assert answer(pixels) != answer(other)
    assert answer(pixels, bucket=1) is None  # of another bucket the bytes are others

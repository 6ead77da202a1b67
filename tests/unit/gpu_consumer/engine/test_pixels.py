import numpy as np
import torch

from gpu_consumer.engine.pixels import defect, to_uint8


def noise(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_a_single_number_that_is_none_spoils_a_picture_and_a_video() -> None:
    picture, video = noise(3, 8, 8), noise(4, 3, 8, 8)
    assert defect(picture) is None
    assert defect(video) is None
    picture[1, 2, 3] = torch.inf
    video[3, 0, 0, 0] = torch.nan
    assert defect(picture) == defect(video) == "non_finite"


def test_a_video_is_blank_only_where_every_frame_is() -> None:
    assert defect(torch.zeros(3, 8, 8)) == "blank_output"
    video = torch.arange(4).reshape(4, 1, 1, 1).expand(4, 3, 8, 8) / 4
    assert defect(video) == "blank_output"
    one_shows_something = video.clone()
    one_shows_something[2] = noise(3, 8, 8)
    assert defect(one_shows_something) is None


def test_colours_come_last_in_pictures_and_videos() -> None:
    videos = noise(2, 4, 3, 8, 16)
    pixels = to_uint8(videos)
    assert (pixels.shape, pixels.dtype) == ((2, 4, 8, 16, 3), np.uint8)
    assert np.array_equal(pixels[1, 2], to_uint8(videos[1, 2]))

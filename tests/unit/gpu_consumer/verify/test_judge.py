"""Verdicts."""

import pytest

from gpu_consumer.verify.judge import differences, judge
from schemas.codec import sha256_hex
from schemas.result import Artifact, Environment
from tests.unit.gpu_consumer.verify.test_levels import GREY, nudged, png

KEPT = png(GREY)
AWAY = "file:///pictures/0.png cannot be read"


def artifact(data: bytes = KEPT) -> Artifact:
    return Artifact(
        uri="file:///pictures/0.png",
        sha256=sha256_hex(data),
        bytes=len(data),
        content_type="image/png",
        width=16,
        height=16,
        seed=7,
    )


@pytest.mark.parametrize(
    ("stored", "drawn", "verdict", "words"),
    [
        (KEPT, KEPT, "identical", sha256_hex(KEPT)),
        (AWAY, KEPT, "identical", "only the result was compared, for file:///pictures/0.png cannot be read"),
        (KEPT, png(nudged(2)), "within tolerance", "2 of 255 levels apart at most"),
        (KEPT, png(nudged(3)), "different", "3 of 255 levels apart at most, 0.00391 in the mean; the tolerance is 2"),
        (KEPT, png(GREY[:8]), "different", "another size"),
        (KEPT, b"rubbish", "different", "no picture"),
        (KEPT, "the prompt is too long", "cannot", "it could not be drawn again: the prompt is too long"),
        (AWAY, png(nudged(1)), "cannot", "nothing tells by how much"),
        (png(nudged(1)), KEPT, "different", "; what was drawn again is"),
        (png(nudged(1)), png(nudged(1)), "different", "is not what the result names"),
        (b"", "the prompt is too long", "different", "is not what the result names"),
    ],
)
def test_a_verdict(stored: bytes | str, drawn: bytes | str, verdict: str, words: str) -> None:
    judgement = judge(artifact(), stored, drawn, 2)
    assert judgement.verdict == verdict
    assert words in str(judgement)


def test_no_tolerance_wants_the_same_bytes_or_the_same_pixels() -> None:
    assert judge(artifact(), KEPT, png(nudged(1)), 0).verdict == "different"
    assert judge(artifact(), KEPT, png(GREY, mode="RGBA"), 0).verdict == "within tolerance"


def test_what_is_not_as_it_was_is_named() -> None:
    """Case GPU-14."""
    recorded = Environment(
        device="NVIDIA A100", device_uuid="GPU-1", libraries={"torch": "2.9.0", "diffusers": "0.39.0", "cudnn": "91002"}
    )
    here = Environment(
        device="NVIDIA H200", device_uuid="GPU-2", libraries={"torch": "2.10.0", "diffusers": "0.39.0", "av": "18.1"}
    )
    assert differences(recorded, here) == [
        "it was drawn on NVIDIA A100, and here is NVIDIA H200",
        "av was not there, and is 18.1 here",
        "cudnn was 91002, and is not there here",
        "torch was 2.9.0, and is 2.10.0 here",
    ]
    assert differences(recorded, recorded.model_copy(update={"device_uuid": "GPU-3"})) == []

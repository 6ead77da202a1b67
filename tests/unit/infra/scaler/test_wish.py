"""What a trigger may say. KEDA passes over what it does not know; here it is a sentence."""

import pytest

from infra.scaler.wish import Wish, WishRefused, wish_of
from schemas.pools import Pool, Scaling

POOLS = {
    name: Pool(gpu_product="CPU", vram_bytes=1, price_usd_per_hour=1, scaling=Scaling(wait_seconds=90))
    for name in ("a", "b")
}


def test_the_metadata_comes_with_what_is_kedas() -> None:
    metadata = {"scalerAddress": "kiln-scaler:8085", "enableTLS": "true", "pool": "a", "targetGpuSeconds": "120.5"}
    wish = wish_of(metadata | {"activationGpuSeconds": "3"}, POOLS)
    assert wish == Wish("a", 120.5, 3.0)
    assert wish.metric == "gpu-seconds-a"


def test_what_is_not_said_is_the_pools() -> None:
    assert wish_of({"pool": "b"}, POOLS) == Wish("b", 90.0, 0.0)


def test_a_target_is_what_keda_makes_of_it() -> None:
    assert wish_of({"pool": "a", "targetGpuSeconds": "1.23456"}, POOLS).target == 1.234
    assert wish_of({"pool": "a", "targetGpuSeconds": "0.3"}, POOLS).target == 0.3


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({}, "has no pool; set pool to one of: a, b"),
        ({"pool": "c"}, "names the pool 'c', which is not declared; set pool to one of: a, b"),
        ({"pool": "a", "targetGPUSeconds": "60"}, "has 'targetGPUSeconds'; known are: pool, targetGpuSeconds"),
        ({"pool": "a", "targetGpuSeconds": "an hour"}, "targetGpuSeconds is 'an hour'; set it to a number"),
        ({"pool": "a", "targetGpuSeconds": "0"}, "from 0.001 to"),
        ({"pool": "a", "targetGpuSeconds": "inf"}, "targetGpuSeconds is 'inf'"),
        ({"pool": "a", "targetGpuSeconds": "nan"}, "targetGpuSeconds is 'nan'"),
        ({"pool": "a", "activationGpuSeconds": "-1"}, "activationGpuSeconds is '-1'; set it to a number"),
    ],
)
def test_what_is_wrong_is_a_sentence_with_its_cure(metadata: dict[str, str], sentence: str) -> None:
    with pytest.raises(WishRefused) as refused:
        wish_of(metadata, POOLS)
    assert sentence in str(refused.value)

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.errors import CatalogueError
from schemas.pools import Pool, load_pools
from schemas.tenants import Quota, Tenants, load_tenants

POOL: dict[str, Any] = {"gpu_product": "H200", "vram_bytes": 1 << 30, "price_usd_per_hour": 3.5}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"partitions": 7, "replicas_max": 4}, "at least 2 x replicas_max = 8"),
        ({"replicas_min": 5, "replicas_max": 4}, "replicas_min is above"),
        ({"vram_bytes": 0}, "vram_bytes"),
        ({"price_usd_per_hour": float("inf")}, "price_usd_per_hour"),
        ({"colour": "red"}, "colour"),
        ({"gpu_product": "NVIDIA-H100-MIG-1g.10gb", "mig_profile": "1g.10gb"}, "leave one of them out"),
        ({"mig_profile": "1g.10gb", "resource_claim_template": "slices"}, "take mig_profile out"),
    ],
)
def test_a_pool_that_could_not_work_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Pool.model_validate({**POOL, **changes})


@pytest.mark.parametrize(
    ("declared", "device", "same"),
    [
        ("H200", "NVIDIA H200", True),
        ("NVIDIA-H200", "NVIDIA H200", True),
        ("nvidia h200", "NVIDIA H200", True),
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3", True),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "NVIDIA H100 80GB HBM3", True),
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("H100", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", False),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", True),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "NVIDIA H100 80GB HBM3 MIG 2g.20gb", False),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "NVIDIA H100 80GB HBM3", False),
        ("H100", "NVIDIA H200", False),
        ("H10", "NVIDIA H100", False),
        ("H100 80GB", "NVIDIA H100", False),
        ("cpu", "Intel(R) Xeon(R) Platinum 8481C", False),
        ("NVIDIA", "NVIDIA H200", False),
    ],
)
def test_a_pool_s_product_is_that_of_its_card_however_it_is_spelt(declared: str, device: str, same: bool) -> None:
    assert Pool.model_validate({**POOL, "gpu_product": declared}).is_product(device) is same


def test_a_pool_of_slices_is_on_no_whole_card() -> None:
    pool = Pool.model_validate({**POOL, "gpu_product": "NVIDIA-H100-80GB-HBM3", "mig_profile": "1g.10gb"})
    assert pool.is_product("NVIDIA H100 80GB HBM3 MIG 1g.10gb")
    assert not pool.is_product("NVIDIA H100 80GB HBM3")


def test_a_tenant_has_its_own_quota_or_the_default_or_none() -> None:
    own, default = Quota(per_second=1, burst=2), Quota(per_second=3, burst=4)
    assert Tenants(default=default, tenants={"alice": own}).quota_of("alice") == own
    assert Tenants(default=default, tenants={"alice": own}).quota_of("ivan") == default
    assert Tenants(tenants={"alice": own}).quota_of("ivan") is None


@pytest.mark.parametrize("quota", [{"per_second": 0, "burst": 1}, {"per_second": 1, "burst": 0.5}])
def test_a_quota_lets_something_in(quota: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Quota.model_validate(quota)


def test_files_are_read(tmp_path: Path) -> None:
    pools, tenants = tmp_path / "pools.yaml", tmp_path / "tenants.yaml"
    pools.write_text("pools: {a: {gpu_product: H200, vram_bytes: 1, price_usd_per_hour: 0}}", encoding="utf-8")
    tenants.write_text("tenants: {alice: {per_second: 1, burst: 5}}", encoding="utf-8")
    assert load_pools(pools).pools["a"].partitions == 8
    assert load_tenants(tenants).quota_of("alice") == Quota(per_second=1, burst=5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "does not exist"),
        ("{", "is no YAML"),
        ("pools: {A B: {}}", "pools.yaml"),
        ("pools: {a: {gpu_product: x, vram_bytes: -1, price_usd_per_hour: 0}}", "vram_bytes"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str | None, sentence: str) -> None:
    path = tmp_path / "pools.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError, match=sentence):
        load_pools(path)

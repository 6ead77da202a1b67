from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.errors import CatalogueError
from schemas.pools import load_pools
from schemas.tenants import load_tenants

POOL: dict[str, Any] = {"gpu_product": "cpu", "vram_bytes": 1 << 30, "price_usd_per_hour": 0}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"pools": {"a": {**POOL, "replica_max": 2}}}, r"pools\.a\.replica_max: there .* did you mean replicas_max\?"),
        (
            {"pools": {"a": {**POOL, "scaling": {"wait_second": 5}}}},
            r"pools\.a\.scaling\.wait_second: there is no such field; did you mean wait_seconds\?",
        ),
        (
            {"pools": {"a": {"gpu_produkt": "cpu", "vram_bytes": 1 << 30, "price_usd_per_hour": 0}}},
            r"pools\.a\.gpu_produkt: .* did you mean gpu_product\?",
        ),
        ({"pools": {"a": POOL}, "clutser": {}}, r"pools\.yaml: clutser: .* did you mean cluster\?"),
        (
            {"pools": {"a": POOL}, "cluster": {"kafka": {"bootstrap_server": "k:9092"}}},
            r"cluster\.kafka\.bootstrap_server: .* did you mean bootstrap_servers\?",
        ),
        ({"pools": {"a": POOL}, "cluster": {"spot": {"xyz": 1}}}, r"there are: node_selector, notice_seconds, taint"),
    ],
)
def test_a_misspelt_field_of_pools_is_one_sentence_with_the_cure(
    tmp_path: Path, body: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(yaml.safe_dump(body))
    with pytest.raises(CatalogueError, match=sentence):
        load_pools(path)


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (
            {"images": {"services": "promptkiln"}},
            r"^pools\.yaml: cluster\.images\.services: 'promptkiln' is no image .*; write NAME:TAG or ",
        ),
        ({"admission": {"cpu": 1}}, r"cluster\.admission\.cpu: .* \(CPUs in quotes, as '4' or '500m'\)$"),
        ({"scaler": {"address": "scaler"}}, r"cluster\.scaler\.address: 'scaler' is no address; write HOST:PORT"),
        (
            {"kafka": {"bootstrap_servers": "kafka:9092"}},
            r"cluster\.kafka\.bootstrap_servers: 'kafka:9092' has no namespace .*; write kafka\.NAMESPACE\.svc:9092$",
        ),
        (
            {"admission": {"signing_keys": {"../..": {"secret": "a", "key": "b"}}}},
            r"signing_keys\.\.\./\.\.: '\.\./\.\.' is no key .*; write TENANT/KEY ID, as atelier/web$",
        ),
        ({"spot": {"node_selector": {"spot": True}}}, r"node_selector\.spot: .* write the text of it in quotes$"),
        (
            {"admission": {"signing_keys": {"a/b": {"secret": "../..", "key": "b"}}}},
            r"secret: .* is no name of an object",
        ),
        ({"store": {"url": "file:///x"}}, "give `claim`, or an s3:// url"),
        ({"models": {"claim": "a", "image": "b:1"}}, "take one out"),
    ],
)
def test_a_value_of_another_form_is_told_which(tmp_path: Path, cluster: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(yaml.safe_dump({"pools": {"a": POOL}, "cluster": cluster}))
    with pytest.raises(CatalogueError, match=sentence):
        load_pools(path)


def test_a_field_inside_what_may_be_absent_is_found_too(tmp_path: Path) -> None:
    path = tmp_path / "tenants.yaml"
    path.write_text("default: {per_second: 1, burst: 1, day: {request: 5}}\n")
    with pytest.raises(CatalogueError, match=r"default\.day\.request: .* did you mean requests\?"):
        load_tenants(path)

"""A declaration that YAML itself would pass over, or stumble on: one sentence, and never a traceback."""

from pathlib import Path

import pytest

from schemas.errors import CatalogueError
from schemas.pools import load_pools

POOL = "{gpu_product: cpu, vram_bytes: 1, price_usd_per_hour: 0}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"pools:\n  a: {POOL}\n  b: {POOL}\n  a: {POOL}\n",
            r"pools\.yaml is no YAML: line 4: 'a' stands here a second time",
        ),
        ("pools:\n  a:\n    vram_bytes: 1\n    vram_bytes: 2\n", r"line 4: 'vram_bytes' stands here a second time"),
        ("[" * 5000, r"pools\.yaml is nested too deeply"),
        (f"pools: {{a: {{gpu_product: cpu, vram_bytes: {'9' * 5000}}}}}", r"pools\.yaml is no YAML: Exceeds the limit"),
        ("pools: {a: {gpu_product: 2026-02-30}}", r"pools\.yaml is no YAML: day"),
        (f"pools: {{Cheap: {POOL}}}", r"^pools\.yaml: pools\.Cheap: 'Cheap' is no name of a pool"),
        ("", r"^pools\.yaml: Input should be a valid dictionary"),
    ],
)
def test_what_yaml_would_swallow_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(text)
    with pytest.raises(CatalogueError, match=sentence):
        load_pools(path)


@pytest.mark.parametrize("value", ["2026-11-30", "!!binary aGk=", "!!set {a}", "&a [*a]", "[1, 2]", "{a: b}", ""])
def test_a_variable_that_is_no_text_is_asked_for_in_quotes(tmp_path: Path, value: str) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(f"pools: {{a: {POOL}}}\ncluster:\n  environment:\n    KILN_TRACES: {value}\n")
    with pytest.raises(CatalogueError, match=r"cluster\.environment\.KILN_TRACES: .*; write the text of it in quotes"):
        load_pools(path)


def test_what_is_merged_may_be_overruled(tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(f"pools:\n  a: &a {POOL}\n  b: &b {{<<: *a, vram_bytes: 2}}\n  c: {{<<: *b, vram_bytes: 3}}\n")
    assert [pool.vram_bytes for pool in load_pools(path).pools.values()] == [1, 2, 3]

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from gpu_consumer.store.base import KEY_LENGTH_MAX, StoreRefused, StoreSettings, check_key
from gpu_consumer.store.choice import open_store
from gpu_consumer.store.file import FileStore


@pytest.mark.parametrize("key", ["a", "outcomes/0-1_2.json", ".probe/x", "a" * 255, "a/" * 511 + "aa", "..a", "a.."])
def test_keys_of_server_ids_pass(key: str) -> None:
    assert len(key) <= KEY_LENGTH_MAX
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "..", "a/..", ".", "a\\b", "a%2fb", "a\n", "é", "a" * 256])
def test_other_keys_are_our_bug(key: str) -> None:
    # case ADM-11
    with pytest.raises(AssertionError, match="not a key"):
        check_key(key)


def test_the_default_is_a_directory_under_the_working_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KILN_STORE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    settings = StoreSettings()
    assert settings.url == (tmp_path / ".kiln/store").as_uri()
    assert not (tmp_path / ".kiln").exists(), "opening writes nothing"
    monkeypatch.chdir("/")
    store = open_store(settings.url, settings)
    assert store.uri("a") == (tmp_path / ".kiln/store/a").as_uri()


def test_a_directory_with_a_space_keeps_its_name(tmp_path: Path) -> None:
    settings = StoreSettings(url=f"file://{tmp_path}/my pictures")
    store = open_store(settings.url, settings)
    store.put("a", b"x", "text/plain")
    assert (tmp_path / "my pictures" / "a").read_bytes() == b"x"
    assert store.uri("a").endswith("/my%20pictures/a")


@pytest.mark.parametrize(
    "url", ["", "store", "/store", "http://host/x", "s3://", "s3:///prefix", "s3://b/a//b", "s3://b/../c", "s3://b/a b"]
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(StoreRefused):
        open_store(url, StoreSettings(url="file:///x"))


def test_settings_that_contradict_each_other_stop_the_start() -> None:
    with pytest.raises(ValidationError, match="retry_first_seconds is above"):
        StoreSettings(retry_first_seconds=5, retry_most_seconds=1)
    with pytest.raises(ValidationError):
        StoreSettings(endpoint_url="minio:9000")


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_STORE_URL", "s3://pictures/prod")
    monkeypatch.setenv("KILN_STORE_ADDRESSING_STYLE", "path")
    settings = StoreSettings()
    assert (settings.url, settings.addressing_style) == ("s3://pictures/prod", "path")


def test_a_directory_needs_no_boto3(tmp_path: Path) -> None:
    code = (
        "import sys; from gpu_consumer.store.base import *; from gpu_consumer.store.choice import *; "
        "import gpu_consumer.store.outcomes; "
        "s = StoreSettings(); open_store(s.url, s).probe(); assert 'boto3' not in sys.modules"
    )
    environment = os.environ | {"KILN_STORE_URL": tmp_path.as_uri()}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[4], env=environment)


def test_the_leftover_directory_is_no_place_for_objects(tmp_path: Path) -> None:
    store = FileStore(tmp_path, leftover_age_seconds=60)
    with pytest.raises(AssertionError, match="not inside"):
        store.put(".writing/a", b"x", "text/plain")

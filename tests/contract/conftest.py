"""Stores under contract: every test that asks for `store` runs over file:// and s3://."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_consumer.store.base import ObjectStore, StoreSettings
from gpu_consumer.store.choice import open_store
from tests.contract.faulty_proxy import Fault, FaultyProxy
from tests.s3server import S3Server, s3_env, s3_server, s3_store_url

__all__ = ["s3_env", "s3_server", "s3_store_url"]


@pytest.fixture(params=["file", "s3"])
def store_settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreSettings:
    """A fresh, empty store; set in the environment too, for child processes."""
    if request.param == "s3":
        request.getfixturevalue("s3_store_url")
    else:
        monkeypatch.setenv("KILN_STORE_URL", (tmp_path / "store").as_uri())
    return StoreSettings()


@pytest.fixture
def store(store_settings: StoreSettings) -> ObjectStore:
    return open_store(store_settings.url, store_settings)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultyProxy]:
    """Between a client and the S3 server: does to a request what a network does."""
    with FaultyProxy(s3_server.port) as running:
        yield running


@pytest.fixture
def impatient(s3_store_url: str) -> StoreSettings:
    """S3 with time-outs and a deadline that a test can wait for: for what is meant to fail."""
    assert s3_store_url
    return StoreSettings(
        connect_timeout_seconds=1, read_timeout_seconds=1, deadline_seconds=2, retry_first_seconds=0.01
    )


@pytest.fixture
def proxied(request: pytest.FixtureRequest, s3_store_url: str, proxy: FaultyProxy) -> ObjectStore:
    """S3 through the proxy. Silence is a held reply, and not a slow machine: elsewhere it is waited out."""
    held = Fault.HOLD_REPLY in getattr(getattr(request.node, "callspec", None), "params", {}).values()
    settings = StoreSettings(
        url=s3_store_url,
        endpoint_url=proxy.url,
        read_timeout_seconds=3 if held else 30,
        deadline_seconds=60,
        retry_first_seconds=0.01,
    )
    return open_store(settings.url, settings)

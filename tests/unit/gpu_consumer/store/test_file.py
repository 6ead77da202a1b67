"""The operating system's refusals; what every store does is in tests/contract."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gpu_consumer.store.base import StoreRefused, StoreUnavailable
from gpu_consumer.store.file import FileStore

TEXT = "text/plain"


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store", leftover_age_seconds=60)


def failing(number: int) -> Any:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.ESTALE, errno.EDQUOT])
@pytest.mark.parametrize("call", ["fsync", "link"])
def test_a_full_or_failing_disk_is_unavailable(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(os, call, failing(number))
        with pytest.raises(StoreUnavailable, match="cannot create outcomes/a"):
            store.create("outcomes/a", b"x", TEXT)
    assert store.get("outcomes/a") is None
    assert store.create("outcomes/a", b"x", TEXT)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM, errno.EOPNOTSUPP])
def test_a_directory_that_will_not_have_it_is_refused(
    store: FileStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "link", failing(number))
    with pytest.raises(StoreRefused, match="KILN_STORE_URL"):
        store.probe()


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("not a directory")
    store = FileStore(tmp_path / "store", leftover_age_seconds=60)
    for call in (store.probe, lambda: store.put("a", b"x", TEXT)):
        with pytest.raises(StoreRefused):
            call()


def test_a_link_whose_reply_was_lost_is_ours(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link_and_say_it_exists(source: Path, target: Path, **options: Any) -> None:
        real(source, target, **options)
        raise FileExistsError(errno.EEXIST, "exists")

    monkeypatch.setattr(os, "link", link_and_say_it_exists)
    assert store.create("outcomes/a", b"ours", TEXT)
    monkeypatch.undo()
    assert not store.create("outcomes/a", b"theirs", TEXT)
    assert store.get("outcomes/a") == b"ours"


def test_nothing_temporary_stays_behind(store: FileStore, tmp_path: Path) -> None:
    store.put("a", b"x", TEXT)
    assert store.create("b", b"x", TEXT)
    assert not store.create("b", b"y", TEXT)
    assert sorted(path.name for path in (tmp_path / "store").rglob("*") if path.is_file()) == ["a", "b"]


def test_a_directory_is_no_object(store: FileStore) -> None:
    store.put("a/b", b"x", TEXT)
    assert store.get("a") is None
    assert store.get("a/b/c") is None


def test_a_symlink_out_of_the_store_is_only_made_by_its_owner(tmp_path: Path) -> None:
    # case ADM-11: the root itself may be a link; keys never are
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = FileStore(tmp_path / "link", leftover_age_seconds=60)
    store.put("a", b"x", TEXT)
    assert (tmp_path / "real" / "a").read_bytes() == b"x"

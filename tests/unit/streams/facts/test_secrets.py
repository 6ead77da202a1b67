"""Signing keys from a mounted folder: what appears, what changes, what is taken back, what is missing."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.tenants import Quota, Tenants
from streams.facts.secrets import SecretsFact, read_secrets
from tests.unit.admission.scene import make_world

SECRET = b"0123456789abcdef"
SIGNED = Quota(per_second=1, burst=1, signed=True)
NOBODY = Tenants()
ALICE = Tenants(tenants={"alice": SIGNED, "bob": Quota(per_second=1, burst=1)})
WORLD = make_world()


def put(folder: Path, tenant: str, key: str, secret: bytes = SECRET) -> Path:
    path = folder / tenant / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(secret)
    return path


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


def test_keys_are_read_by_tenant_and_name(tmp_path: Path) -> None:
    put(tmp_path, "alice", "2030-01", SECRET + b"\n")
    put(tmp_path, "alice", "2030-02", b"another secret of hers")
    put(tmp_path, "bob", "k")
    assert read_secrets(tmp_path) == {
        "alice": {"2030-01": SECRET, "2030-02": b"another secret of hers"},
        "bob": {"k": SECRET},
    }


def test_what_a_mount_keeps_for_itself_is_no_key(tmp_path: Path) -> None:
    """Kubernetes: the files are links through ..data into a folder of one version."""
    hidden = put(tmp_path / "alice" / "..2030_01_01", "", "k")
    (tmp_path / "alice" / "..data").symlink_to(hidden.parent.name)
    (tmp_path / "alice" / "k").symlink_to("..data/k")
    (tmp_path / "..data").mkdir()
    (tmp_path / "README").write_text("no tenant")
    assert read_secrets(tmp_path) == {"alice": {"k": SECRET}}


def test_a_file_that_holds_no_key_is_left_out_and_said_without_its_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "alice", "short", b"hunter2")
    put(tmp_path, "alice", "good")
    with caplog.at_level(logging.WARNING):
        assert read_secrets(tmp_path) == {"alice": {"good": SECRET}}
    assert "16 to 4096 bytes" in caplog.text
    assert "hunter2" not in caplog.text


async def test_it_follows_what_is_mounted_anew_and_taken_back(tmp_path: Path) -> None:
    old = put(tmp_path, "alice", "old")
    async with SecretsFact(tmp_path, ALICE, 0.001) as fact:
        assert fact.problem is None
        assert fact.into(WORLD).secrets == {"alice": {"old": SECRET}}
        put(tmp_path, "alice", "new")
        await until(lambda: fact.into(WORLD).secrets == {"alice": {"old": SECRET, "new": SECRET}})
        old.write_bytes(b"changed in its place")
        # While it is written anew it may be read empty, which is no key.
        await until(lambda: fact.into(WORLD).secrets["alice"].get("old") == b"changed in its place")
        old.unlink()
        (tmp_path / "alice" / "new").unlink()
        await until(lambda: fact.into(WORLD).secrets == {})
        assert fact.problem is None  # the last key was taken back on purpose: that holds up nobody else
        assert fact.failure is None


async def test_nothing_is_decided_before_every_tenant_that_must_sign_has_a_key(tmp_path: Path) -> None:
    put(tmp_path, "bob", "k")
    async with SecretsFact(tmp_path, ALICE, 0.001) as fact:
        assert fact.problem is not None
        assert "tenant 'alice' must sign and has no key" in fact.problem
        put(tmp_path, "alice", "k")
        await until(lambda: fact.problem is None)


async def test_a_folder_that_is_missing_is_a_problem_at_first_and_changes_nothing_later(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    async with SecretsFact(folder, NOBODY, 0.001) as fact:
        await until(lambda: "mount them" in (fact.problem or ""))
        put(folder, "alice", "k")
        await until(lambda: fact.problem is None)
        folder.rename(tmp_path / "away")
        aged = fact.age_seconds
        await until(lambda: fact.age_seconds > aged + 0.05)  # it is looked for, and not found
        assert fact.into(WORLD).secrets == {"alice": {"k": SECRET}}
        assert fact.problem is None


@pytest.mark.parametrize(
    ("tenants", "problem"),
    [
        (NOBODY, None),
        (ALICE, "tenant 'alice' must sign"),
        (Tenants(default=SIGNED), "tenants must sign by default"),
    ],
)
async def test_without_a_folder_nobody_may_be_asked_to_sign(tenants: Tenants, problem: str | None) -> None:
    async with SecretsFact(None, tenants, 1) as fact:
        if problem is None:
            assert fact.problem is None
        else:
            assert problem in (fact.problem or "")
            assert "KILN_ADMISSION_SERVICE_SIGNING_KEYS" in (fact.problem or "")
        assert fact.into(WORLD).secrets == {}
        assert fact.age_seconds == 0

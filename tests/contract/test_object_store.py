"""One contract, every store: a directory and a real S3 server."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Event

import pytest

from gpu_consumer.store.base import ObjectStore, StoreSettings
from gpu_consumer.store.choice import open_store

pytestmark = pytest.mark.timeout(1000)  # the S3 server may have to be built first

TEXT = "text/plain"
ROOT = Path(__file__).parents[2]


def child(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.contract.store_child", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the child ended without a word"
    return line.strip()


def test_a_missing_object_is_none(store: ObjectStore) -> None:
    assert store.get("outcomes/nothing.json") is None
    assert store.get("nothing") is None


def test_what_is_put_is_read_and_put_again_replaces(store: ObjectStore) -> None:
    for body in (b"one", b"one", b"", b"\x00\xff" * 3):
        store.put("a/b-c_d.e", body, TEXT)
        assert store.get("a/b-c_d.e") == body


def test_create_never_overwrites(store: ObjectStore) -> None:
    # case S3-10
    assert store.create("outcomes/a.json", b"first", TEXT)
    assert not store.create("outcomes/a.json", b"second", TEXT)
    assert not store.create("outcomes/a.json", b"first", TEXT)
    assert store.get("outcomes/a.json") == b"first"


def test_create_finds_what_was_put(store: ObjectStore) -> None:
    store.put("outcomes/a.json", b"first", TEXT)
    assert not store.create("outcomes/a.json", b"second", TEXT)
    assert store.get("outcomes/a.json") == b"first"


def test_a_large_object_comes_back_whole(store: ObjectStore) -> None:
    # case S3-05: bytes, not streams, and sent whole
    data = b"".join(sha256(str(n).encode()).digest() for n in range(1 << 18))
    assert len(data) == 8 << 20
    store.put("artifacts/large.bin", data, "application/octet-stream")
    assert store.get("artifacts/large.bin") == data
    assert store.create("artifacts/large-created.bin", data, "application/octet-stream")
    assert store.get("artifacts/large-created.bin") == data


def test_racing_threads_have_one_winner(store: ObjectStore) -> None:
    # case S3-10
    writers, rounds = 20, 10
    start = Barrier(writers)

    def create(key: str, writer: int) -> bool:
        start.wait(60)
        return store.create(key, f"writer {writer}".encode(), TEXT)

    with ThreadPoolExecutor(writers) as pool:
        for key in (f"outcomes/{number}.json" for number in range(rounds)):
            won = list(pool.map(create, [key] * writers, range(writers)))
            assert won.count(True) == 1
            assert store.get(key) == f"writer {won.index(True)}".encode()


def test_racing_processes_have_one_winner(store: ObjectStore) -> None:
    # case S3-10
    rounds = 10
    children = [child("race", f"process-{number}", str(rounds), "5") for number in range(4)]
    try:
        assert [said(process) for process in children] == ["ready"] * 4
        for process in children:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        winners = [json.loads(said(process)) for process in children]
    finally:
        for process in children:
            process.kill()
            process.communicate()
    for key in (f"race/{number}" for number in range(rounds)):
        won = [body for answer in winners for body in answer[key]]
        assert len(won) == 1
        assert store.get(key) == won[0].encode()


def test_a_reader_beside_a_writer_sees_one_whole_object_or_the_other(store: ObjectStore) -> None:
    bodies = [letter * (4 << 20) for letter in (b"a", b"b")]
    store.put("artifacts/a.bin", bodies[0], TEXT)
    done = Event()

    def read() -> int:
        reads = 0
        while not (reads and done.is_set()):
            assert store.get("artifacts/a.bin") in bodies
            reads += 1
        return reads

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for number in range(20):
                store.put("artifacts/a.bin", bodies[number % 2], TEXT)
        finally:
            done.set()
        assert all(reader.result(60) for reader in readers)


def test_a_killed_writer_leaves_nothing_half_visible(store: ObjectStore) -> None:
    begun: list[str] = []
    for number in range(4):
        process = child("write", f"writer-{number}")
        try:
            begun += [said(process) for _ in range(number + 1)]
        finally:
            process.kill()
            rest, _ = process.communicate()
        begun += rest.split()
    whole = 0
    for key in begun:
        data = store.get(key)
        if data is not None:
            assert sha256(data).hexdigest() == key.removeprefix("written/")
            whole += 1
    assert whole, "no writer finished one object: the test shows nothing"


def test_the_probe_passes_twice_and_leaves_nothing(store: ObjectStore, store_settings: StoreSettings) -> None:
    store.probe()
    store.probe()
    if store_settings.url.startswith("file:"):
        root = Path(store.uri("x").removeprefix("file://")).parent
        assert [path for path in root.rglob("*") if path.is_file()] == []


def test_the_uri_names_the_object(store: ObjectStore, store_settings: StoreSettings) -> None:
    assert store.uri("outcomes/a.json") == f"{store_settings.url}/outcomes/a.json"


@pytest.mark.parametrize(
    "key",
    [
        "../../tenant-b/x", "/etc/passwd", "a//b", "a/../b", "a/./b", "..", ".", "", "a/", "%2e%2e/x", "a\\b", "a\0b",
        "a\n", "a b", "ключ", "🔥", "a/" * 513 + "a", "a" * 256,
    ],
)  # fmt: skip
def test_a_key_never_leaves_its_prefix(store: ObjectStore, key: str) -> None:
    # case ADM-11
    with pytest.raises(AssertionError):
        store.put(key, b"x", TEXT)
    with pytest.raises(AssertionError):
        store.create(key, b"x", TEXT)
    with pytest.raises(AssertionError):
        store.get(key)


def test_two_prefixes_are_two_stores(store: ObjectStore, store_settings: StoreSettings) -> None:
    other = open_store(f"{store_settings.url}-other/deeper", store_settings)
    store.put("a", b"ours", TEXT)
    assert other.get("a") is None
    assert other.create("a", b"theirs", TEXT)
    assert store.get("a") == b"ours"
    assert other.uri("a") == f"{store_settings.url}-other/deeper/a"


def test_the_leftover_of_a_killed_writer_is_swept_by_age(tmp_path: Path) -> None:
    settings = StoreSettings(url=(tmp_path / "store").as_uri())
    store = open_store(settings.url, settings)
    store.put("a", b"x", TEXT)
    temporary = tmp_path / "store" / ".writing"
    for name in ("old", "new"):
        (temporary / name).write_bytes(b"half")
    os.utime(temporary / "old", (0, 0))
    store.probe()
    assert [path.name for path in temporary.iterdir()] == ["new"]

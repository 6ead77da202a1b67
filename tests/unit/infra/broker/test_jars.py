"""The jars are what the lock says, or there is a sentence. The mirror is a real HTTP server on the loopback."""

import hashlib
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from infra.broker.errors import JarError
from infra.broker.jars import Jar, ensure_jars, is_intact, read_lock
from infra.broker.settings import BrokerSettings

CONTENT = {"first": b"1" * 300_000, "second": b"2" * 5}


class Mirror(SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012
    cut: set[str] = set()  # noqa: RUF012  artifacts whose next answer ends early

    def do_GET(self) -> None:
        artifact = self.path.split("/")[-3]
        self.asked.append(artifact)
        if artifact in self.cut:
            self.cut.discard(artifact)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CONTENT[artifact][:1000])
            return
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    root = tmp_path / "mirror"
    for name, content in CONTENT.items():
        folder = root / "org" / "example" / name / "1.0"
        folder.mkdir(parents=True)
        (folder / f"{name}-1.0.jar").write_bytes(content)
    Mirror.asked = []
    Mirror.cut = set()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Mirror, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def settings(tmp_path: Path, mirror: str) -> BrokerSettings:
    return BrokerSettings(cache=tmp_path / "cache", maven_mirror=mirror, download_attempts=2)


@pytest.fixture
def console() -> Console:
    return Console(file=StringIO(), force_terminal=True, width=100)


def _jar(name: str, *, content: bytes | None = None) -> Jar:
    content = CONTENT[name] if content is None else content
    return Jar(f"org.example:{name}:1.0", hashlib.sha256(content).hexdigest(), len(content))


JARS = (_jar("first"), _jar("second"))


def test_fetches_once_and_shows_it(settings: BrokerSettings, console: Console) -> None:
    paths = ensure_jars(settings, console, JARS)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert sorted(Mirror.asked) == ["first", "second"]
    assert isinstance(console.file, StringIO)
    assert "Apache Kafka, 2 jars" in console.file.getvalue()

    assert ensure_jars(settings, console, JARS) == paths
    assert len(Mirror.asked) == 2


@pytest.mark.parametrize("damage", [b"", b"1" * 299_999 + b"x"])
def test_a_damaged_jar_is_fetched_again_and_no_other(settings: BrokerSettings, console: Console, damage: bytes) -> None:
    first, _ = ensure_jars(settings, console, JARS)
    first.write_bytes(damage)
    Mirror.asked.clear()
    ensure_jars(settings, console, JARS)
    assert Mirror.asked == ["first"]
    assert first.read_bytes() == CONTENT["first"]


def test_goes_on_where_it_was_interrupted(settings: BrokerSettings, console: Console) -> None:
    ensure_jars(settings, console, JARS[1:])
    ensure_jars(settings, console, JARS)
    assert Mirror.asked == ["second", "first"]


def test_another_jar_than_the_pinned_is_refused_and_leaves_nothing(settings: BrokerSettings, console: Console) -> None:
    pinned = _jar("second", content=b"other")
    with pytest.raises(JarError, match=r"org.example:second:1.0 was refused: its SHA-256 is .*KILN_MAVEN_MIRROR"):
        ensure_jars(settings, console, [pinned])
    assert list(settings.jars_directory.iterdir()) == []


def test_an_answer_that_ends_early_is_asked_for_again(settings: BrokerSettings, console: Console) -> None:
    Mirror.cut = {"first"}
    first, _ = ensure_jars(settings, console, JARS)
    assert first.read_bytes() == CONTENT["first"]
    assert Mirror.asked.count("first") == 2


def test_a_jar_that_cannot_be_had_says_what_to_do(settings: BrokerSettings, console: Console) -> None:
    absent = Jar("org.example:absent:1.0", "0" * 64, 1)
    with pytest.raises(JarError, match=r"Cannot fetch org.example:absent:1.0 \(404 .*KILN_MAVEN_MIRROR"):
        ensure_jars(settings, console, [absent])


def test_a_killed_fetch_leaves_no_rubbish_for_ever(settings: BrokerSettings, console: Console) -> None:
    settings.jars_directory.mkdir(parents=True)
    old, new = settings.jars_directory / "first-1.0.jar.x.part", settings.jars_directory / "second-1.0.jar.y.part"
    old.touch()
    new.touch()
    import os

    os.utime(old, (0, time.time() - 7200))
    ensure_jars(settings, console, JARS)
    assert not old.exists()
    assert new.exists()


def test_the_lock_pins_one_kafka_and_no_jar_twice() -> None:
    jars = read_lock()
    kafka = {jar.coordinates.split(":")[2] for jar in jars if jar.coordinates.startswith("org.apache.kafka:")}
    assert len(kafka) == 1
    assert kafka.pop().startswith("4.")
    assert len({jar.filename for jar in jars}) == len(jars) > 40


@pytest.mark.parametrize("line", ["a:b:1", "a:b 00 1", f"a:b:1 {'g' * 64} 1", f"a:b:1 {'0' * 64} many"])
def test_a_lock_that_cannot_be_read_names_the_line(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"# comment\n\n{line}\n")
    with pytest.raises(JarError, match=r"^jars.lock, line 3: "):
        read_lock(lock)


def test_a_missing_file_is_not_intact(tmp_path: Path) -> None:
    assert not is_intact(tmp_path / "absent.jar", JARS[0])

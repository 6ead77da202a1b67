"""A process or a segment left over is found, and what belongs to another run is not."""

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.fault.children import MARK, Child, marked, shared_memory, unmapped
from tests.fault.leftovers import find_bad_ends, find_confessions, find_leftovers
from tests.fault.storm import Deeds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc and /dev/shm")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fault.leftovers._GONE_SECONDS", 0.2)


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path("/dev/shm") / f"kiln-{uuid4().hex}"
    path.write_bytes(b"\0" * 4096)
    yield path
    path.unlink()


def test_a_process_left_is_found_by_its_mark() -> None:
    mark = uuid4().hex
    with subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: mark}) as left:
        try:
            assert [flaw.kind for flaw in find_leftovers(mark, shared_memory())] == ["process_left"]
            assert marked(uuid4().hex) == []
        finally:
            left.kill()
    assert marked(mark) == []


def test_shared_memory_left_is_found(segment: Path) -> None:
    flaws = list(find_leftovers(uuid4().hex, shared_memory() - {segment.name}))
    assert [(flaw.kind, flaw.detail) for flaw in flaws] == [("shared_memory_left", segment.name)]


def test_shared_memory_that_somebody_has_mapped_is_not_left_over(segment: Path) -> None:
    with segment.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        assert unmapped({segment.name}) == set()
    assert unmapped({segment.name}) == {segment.name}


def test_a_bug_that_a_service_confesses_is_a_flaw(tmp_path: Path) -> None:
    log = tmp_path / "admission-0.log"
    log.write_text("WARNING the broker is away\nAssertionError: the watermark fell\n")
    assert [flaw.detail.split(":")[:2] for flaw in find_confessions([log])] == [["admission-0.log", "2"]]


def test_a_bad_end_is_a_flaw(tmp_path: Path) -> None:
    child = Child("gpu-consumer-0", ["false"], {}, 1, tmp_path / "log")
    child.deaths_of_its_own.append(-11)
    deeds = Deeds(slow_stops=["admission-0"], bad_exits=["admission-1 ended with 3 after SIGTERM"])
    assert [flaw.kind for flaw in find_bad_ends(deeds, [child])] == ["slow_stop", "bad_exit", "odd_death"]
    assert list(find_bad_ends(Deeds(), [])) == []

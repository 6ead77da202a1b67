"""What grows is seen to grow (case DIF-22), by what judges `make soak`."""

import os
import sys
from dataclasses import replace

import pytest

from tests.fault.soak.growth import SLOPE_BYTES_MAX, Wave, grown, growth, slope
from tests.fault.soak.probe import Holding, children_of, holding

FLAT = Holding(50 << 20, descriptors=9, memory_files=0, threads=4, children=1, cpu_seconds=0.0)


def run(engine: dict[str, float]) -> list[Wave]:
    """Twenty waves of 25, in each of which the engine gets more of what is named."""
    return [
        Wave(
            25 * (n + 1),
            1.0,
            replace(FLAT, cpu_seconds=float(n)),
            replace(FLAT, **{name: int(getattr(FLAT, name) + n * more) for name, more in engine.items()}),
        )
        for n in range(20)
    ]


def test_what_stays_is_no_flaw() -> None:
    assert list(grown(run({}))) == []
    assert list(grown(run({"resident_bytes": 25 * SLOPE_BYTES_MAX * 0.9}))) == []


@pytest.mark.parametrize("what", ["descriptors", "memory_files", "threads", "children"])
def test_what_is_left_open_is_named(what: str) -> None:
    assert any(what in flaw for flaw in grown(run({what: 1})))


def test_memory_and_time_that_grow_are_named() -> None:
    assert any("bytes a request" in flaw for flaw in grown(run({"resident_bytes": 25 * SLOPE_BYTES_MAX * 1.1})))
    slower = [replace(wave, engine=replace(wave.engine, cpu_seconds=float(n * n))) for n, wave in enumerate(run({}))]
    assert any("CPU time" in flaw for flaw in grown(slower))


def test_a_line_and_its_ends() -> None:
    assert slope([0, 1, 2, 3], [5, 7, 9, 11]) == 2
    assert slope([1, 1], [0, 9]) == 0
    assert growth([1, 1, 5, 9, 2, 2, 3, 3]) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_process_as_it_is() -> None:
    before = holding(os.getpid())
    descriptor = os.memfd_create("probe")
    try:
        now = holding(os.getpid())
        assert (now.descriptors, now.memory_files) == (before.descriptors + 1, before.memory_files + 1)
        assert now.resident_bytes > 1 << 20
        assert now.threads >= 1
        assert now.cpu_seconds > 0
        assert len(children_of(os.getpid())) == now.children
    finally:
        os.close(descriptor)

"""One sample, and peaks over a window."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_consumer.gpu.health import Condition
from gpu_consumer.gpu.sampler import Peak, Sample, Session
from tests.unit.gpu_consumer.gpu.fake import (
    GIB,
    M1,
    M2,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    A,
    B,
    FakeCard,
    FakeNvml,
)

WHOLE = 0xFFFFFFFF


def session(device: str = A) -> Session:
    opened = Session.open(device, {})
    assert opened is not None
    return opened


def test_a_whole_card() -> None:
    with FakeNvml(FakeCard(A, reasons=0x44, ecc=3, remapped=(1, 2, 1, 0))).installed():
        found = session()
        assert (found.product, found.driver) == ("NVIDIA H200", "580.65.06")
        assert found.sample() == Sample(
            utilisation_ratio=0.5,
            memory_used_bytes=10 * GIB,
            memory_total_bytes=80 * GIB,
            power_watts=300,
            temperature_celsius=60,
            clock_hertz={"sm": 1.98e9, "memory": 3.201e9},
            throttles={
                "power_cap": True,
                "hardware": False,
                "software_thermal": False,
                "hardware_thermal": True,
                "power_brake": False,
            },
            condition=Condition(3, remap_pending=True, remap_failed=False, retirement_pending=False),
        )


def test_of_a_slice_memory_is_its_own_and_utilisation_is_not_told() -> None:
    with FakeNvml(FakeCard(A, slices=(M1, M2))).installed():
        sample = session(M2).sample()
        assert (sample.memory_used_bytes, sample.memory_total_bytes) == (GIB, 10 * GIB)
        assert sample.utilisation_ratio is None
        assert sample.power_watts == 300


UNTOLD: dict[str, dict[str, Any]] = {
    "nvmlDeviceGetMemoryInfo": {"memory_used_bytes": None, "memory_total_bytes": None},
    "nvmlDeviceGetUtilizationRates": {"utilisation_ratio": None},
    "nvmlDeviceGetPowerUsage": {"power_watts": None},
    "nvmlDeviceGetTemperature": {"temperature_celsius": None},
    "nvmlDeviceGetClockInfo": {"clock_hertz": {}},
    "nvmlDeviceGetCurrentClocksEventReasons": {"throttles": {}},
    "nvmlDeviceGetTotalEccErrors": {"condition": Condition(None, False, False, False)},
    "nvmlDeviceGetRemappedRows": {"condition": Condition(0, None, None, False)},
    "nvmlDeviceGetRetiredPagesPendingStatus": {"condition": Condition(0, False, False, None)},
    "nvmlEventSetWait_v2": {},
}


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, UNKNOWN])
@pytest.mark.parametrize("function", UNTOLD)
def test_what_a_card_does_not_tell_is_absent_and_the_rest_is_there(function: str, code: int) -> None:
    with FakeNvml(FakeCard(A)).installed() as api:
        found = session()
        complete = found.sample()
        api.fails[function] = code
        assert found.sample() == replace(complete, **UNTOLD[function])
        assert found.xids() == []


@pytest.mark.parametrize("function", ["nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlDeviceGetName"])
def test_a_card_that_reports_no_events_or_has_no_name(function: str) -> None:
    with FakeNvml(FakeCard(A)).installed() as api:
        api.fails[function] = NOT_SUPPORTED
        found = session()
        assert found.xids() == []
        assert found.sample().power_watts == 300


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("used", (1 << 64) - 1, "memory_used_bytes"),
        ("used", 81 * GIB, "memory_used_bytes"),
        ("used", None, "memory_used_bytes"),
        ("total", 0, "memory_total_bytes"),
        ("busy", 101, "utilisation_ratio"),
        ("busy", (1 << 32) - 1, "utilisation_ratio"),
        ("milliwatts", (1 << 32) - 1, "power_watts"),
        ("milliwatts", None, "power_watts"),
        ("celsius", 4_000, "temperature_celsius"),
    ],
)
def test_what_cannot_be_is_not_told(field: str, value: Any, told: str) -> None:
    """Case GPU-11."""
    card = FakeCard(A)
    setattr(card, field, value)
    with FakeNvml(card).installed():
        assert getattr(session().sample(), told) is None


def test_no_process_is_looked_up_by_its_id() -> None:
    """Case GPU-10: in a container NVML lists the host's process ids."""
    with FakeNvml(FakeCard(A)).installed() as api:
        session().sample()
        assert not [call for call in api.calls if "Process" in call]


def test_xids_of_our_card_or_slice_only() -> None:
    card = FakeCard(A, slices=(M1, M2), events=[(94, 7), (94, 8), (79, WHOLE)])
    neighbour = FakeCard(B, events=[(48, WHOLE)])
    with FakeNvml(neighbour, card).installed():
        ours = session(M2)
        assert ours.xids() == [94, 79]
        assert ours.xids() == []


def test_a_card_in_agony_does_not_keep_the_sampler() -> None:
    with FakeNvml(FakeCard(A, events=[(95, WHOLE)] * 1000)).installed():
        assert len(session().xids()) == 64


def test_a_peak_is_seen_by_every_scraper_and_forgotten_after_its_window() -> None:
    peak = Peak(60)
    assert peak.at(0) is None
    for now, value in ((0, 1.0), (1, 9.0), (2, 3.0)):
        peak.add(now, value)
    assert [peak.at(30), peak.at(31), peak.at(61)] == [9, 9, 9]
    assert peak.at(62) == 3
    assert peak.at(63) is None


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 100)), min_size=1), st.floats(0, 20), st.floats(1, 10))
def test_a_peak_is_the_highest_of_the_window(steps: list[tuple[float, float]], later: float, window: float) -> None:
    peak, now, kept = Peak(window), 0.0, []
    for wait, value in steps:
        now += wait
        peak.add(now, value)
        kept.append((now, value))
    now += later
    expected = max((value for when, value in kept if when >= now - window), default=None)
    assert peak.at(now) == expected

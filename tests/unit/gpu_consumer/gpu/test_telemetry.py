"""The card watched: what a scrape and readiness see, and that nothing NVML does gets further than a sentence."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from gpu_consumer.gpu.metrics import METRICS, PREFIX
from gpu_consumer.gpu.settings import GpuTelemetrySettings
from gpu_consumer.gpu.telemetry import GpuTelemetry
from tests.unit.gpu_consumer.gpu.fake import (
    DRIVER_NOT_LOADED,
    LOST,
    M1,
    MISMATCH,
    NOT_FOUND,
    UNINITIALISED,
    A,
    B,
    FakeCard,
    FakeNvml,
)

WHOLE = 0xFFFFFFFF


class Ticks:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A telemetry stepped by hand."""

    def __init__(self, environment: dict[str, str] | None = None, **settings: Any) -> None:
        self.clock = Ticks()
        self.telemetry = GpuTelemetry(GpuTelemetrySettings(**settings), environment or {}, self.clock)
        self.registry = CollectorRegistry()
        self.registry.register(self.telemetry)

    def step(self, seconds: float = 1.0) -> float:
        self.clock.now += seconds
        return self.telemetry.step()

    def metrics(self) -> dict[str, float]:
        lines = generate_latest(self.registry).decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.removeprefix(PREFIX): float(value) for name, value in pairs}


@pytest.fixture
def card() -> FakeCard:
    return FakeCard(A)


@pytest.fixture
def nvml(card: FakeCard) -> Iterator[FakeNvml]:
    with FakeNvml(card, FakeCard(B)).installed() as installed:
        yield installed


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "waited for 30 s"
        time.sleep(0.005)


def test_names_follow_the_conventions() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.name.startswith(PREFIX)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.meaning.endswith("."), metric.name


@pytest.mark.usefixtures("nvml")
def test_every_metric_of_the_list_is_exposed_and_no_other(card: FakeCard) -> None:
    card.events.append((79, WHOLE))
    watched = Watched()
    assert watched.metrics() == {"nvml_up": 0}
    assert watched.step() == 1
    shown = {name.partition("{")[0] for name in watched.metrics()}
    assert shown == {metric.name.removeprefix(PREFIX) for metric in METRICS}
    assert watched.metrics()[f'info{{card="{A}",driver="580.65.06",product="NVIDIA H200",uuid="{A}"}}'] == 1
    for metric in METRICS:
        with pytest.raises(ValueError, match="Duplicated"):
            _gauge(watched.registry, metric.name)


def _gauge(registry: CollectorRegistry, name: str) -> None:
    from prometheus_client import Gauge

    Gauge(name, "taken", registry=registry)


@pytest.mark.usefixtures("nvml")
def test_peaks_stay_for_their_window_whoever_reads(card: FakeCard) -> None:
    watched = Watched(window_seconds=15)
    card.busy = 90
    watched.step()
    card.busy = 10
    watched.step()
    for _ in range(2):
        assert watched.metrics()["utilisation_ratio"] == 0.1
        assert watched.metrics()["utilisation_peak_ratio"] == 0.9
    watched.step(15)
    assert watched.metrics()["utilisation_peak_ratio"] == 0.1


@pytest.mark.usefixtures("nvml")
def test_time_held_down_is_counted_by_reason(card: FakeCard) -> None:
    watched = Watched()
    card.reasons = 0x04
    for _ in range(4):
        watched.step()
    assert watched.metrics()['throttled_seconds_total{reason="power_cap"}'] == 3
    assert watched.metrics()['throttled_seconds_total{reason="hardware"}'] == 0
    watched.step(3600)  # this thread was asleep, and cannot say what happened meanwhile
    assert watched.metrics()['throttled_seconds_total{reason="power_cap"}'] == 5


@pytest.mark.usefixtures("nvml")
def test_the_second_card_of_the_bus() -> None:
    watched = Watched({"CUDA_VISIBLE_DEVICES": "1"})
    watched.step()
    assert any(f'uuid="{B}"' in name for name in watched.metrics())


@pytest.mark.usefixtures("nvml")
def test_a_card_that_only_the_engine_knows(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})
    watched.step()
    assert watched.metrics() == {"nvml_up": 0}
    assert "set KILN_GPU_TELEMETRY_DEVICE to its UUID" in caplog.text
    watched.telemetry.follow("cpu-host")
    watched.step()
    assert watched.metrics()["nvml_up"] == 0
    watched.telemetry.follow(B)
    watched.step()
    assert any(f'uuid="{B}"' in name for name in watched.metrics())


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("ecc", 1, "uncorrectable memory errors"),
        ("remapped", (0, 1, 1, 0), "wait to be remapped"),
        ("remapped", (0, 1, 0, 1), "could not be remapped"),
        ("retiring", 1, "wait to be retired"),
        ("events", [(79, WHOLE)], "Xid 79 (off the bus)"),
    ],
)
@pytest.mark.usefixtures("nvml")
def test_a_card_with_a_fault_makes_the_consumer_unready(card: FakeCard, field: str, value: Any, words: str) -> None:
    """Case GPU-19. Case GPU-04: found while work runs."""
    watched, forgiving = Watched(), Watched(unready_on="")
    for each in (watched, forgiving):
        each.step()
        assert each.telemetry.unready() is None
    setattr(card, field, list(value) * 2 if isinstance(value, list) else value)
    watched.step()
    sentence = watched.telemetry.unready()
    assert sentence is not None
    assert A in sentence
    assert words in sentence
    assert "reset the card" in sentence
    forgiving.step()
    assert forgiving.telemetry.unready() is None
    if not isinstance(value, list):
        setattr(card, field, getattr(FakeCard(A), field))
        watched.step()
        assert watched.telemetry.unready() is None, "a reset made it well"


@pytest.mark.usefixtures("nvml")
def test_what_our_own_engine_caused_is_counted_and_does_not_make_it_unready(card: FakeCard) -> None:
    watched = Watched()
    card.events.extend([(13, WHOLE), (31, WHOLE), (43, WHOLE), (45, WHOLE)])
    watched.step()
    assert watched.metrics()['xid_events_total{xid="31"}'] == 1
    assert watched.telemetry.unready() is None


@pytest.mark.usefixtures("nvml")
def test_an_event_counts_for_a_time(card: FakeCard) -> None:
    watched = Watched(xid_seconds=100)
    card.events.append((94, WHOLE))
    watched.step()
    watched.step(99)
    assert watched.telemetry.unready() is not None
    watched.step(2)
    assert watched.telemetry.unready() is None


def test_a_card_that_is_lost_and_comes_back(nvml: FakeNvml) -> None:
    watched = Watched()
    watched.step()
    nvml.fails["nvmlDeviceGetMemoryInfo"] = LOST
    watched.step()
    sentence = watched.telemetry.unready()
    assert sentence is not None
    assert "the driver has lost it" in sentence
    assert watched.metrics()['fault{fault="lost"}'] == 1
    assert "memory_used_bytes" not in watched.metrics()
    nvml.fails = {"nvmlInit": DRIVER_NOT_LOADED}  # while it is reset
    watched.step()
    assert watched.telemetry.unready() is not None
    nvml.fails = {}
    watched.step()
    assert watched.telemetry.unready() is None


def test_lost_before_the_start(nvml: FakeNvml) -> None:
    nvml.fails["nvmlDeviceGetHandleByIndex"] = LOST
    watched = Watched({"CUDA_VISIBLE_DEVICES": "0"})
    watched.step()
    assert watched.telemetry.unready() is not None


def test_a_driver_that_was_reloaded(nvml: FakeNvml, caplog: pytest.LogCaptureFixture) -> None:
    """Case GPU-07. The handles of the old session are not used in the new one."""
    caplog.set_level(logging.INFO)
    watched = Watched()
    watched.step()
    nvml.sessions = 0
    assert watched.step() == 1, "tried again at once"
    assert watched.metrics()["nvml_up"] == 0
    watched.step()
    assert watched.metrics()["nvml_up"] == 1
    assert "NVML answers" in caplog.text
    assert watched.telemetry.unready() is None


def test_nvml_that_does_not_match_is_said_once_and_tried_ever_less_often(
    nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    """Case GPU-07."""
    nvml.fails["nvmlInit"] = MISMATCH
    watched = Watched(retry_seconds_max=5)
    assert [watched.step() for _ in range(5)] == [1, 2, 4, 5, 5]
    assert [record.message for record in caplog.records] == [
        "NVML's library and the loaded driver differ in version, as after an upgrade; restart the node; its metrics "
        "are absent until it answers"
    ]
    assert watched.telemetry.unready() is None, "the card may be well: the engine tells"


@pytest.mark.usefixtures("nvml")
def test_a_binding_that_answers_in_another_form(card: FakeCard, caplog: pytest.LogCaptureFixture) -> None:
    card.remapped = ("a shorter answer",)
    watched = Watched()
    watched.step()
    assert "NVML answers what it should not (IndexError" in caplog.text
    card.remapped = (0, 0, 0, 0)
    watched.step()
    assert watched.metrics()["nvml_up"] == 1


def test_a_slice_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    with FakeNvml(FakeCard(A, slices=(M1,))).installed() as nvml:
        nvml.fails["nvmlDeviceGetMigDeviceHandleByIndex"] = NOT_FOUND
        Watched(device=M1).step()
    assert f"NVML does not list the device {M1}" in caplog.text


@pytest.mark.usefixtures("nvml")
def test_a_sample_that_grows_old_is_not_shown() -> None:
    watched = Watched(stale_seconds=10)
    watched.step()
    watched.clock.now += 11
    assert watched.metrics()["nvml_up"] == 0
    assert "memory_used_bytes" not in watched.metrics()


async def test_nvml_that_blocks_delays_nobody(nvml: FakeNvml) -> None:
    """Case GPU-07: calls hang while a driver recovers. A scrape, a probe and the end go on."""
    release, inside = threading.Event(), threading.Event()

    class Blocking(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            if name == "nvmlDeviceGetPowerUsage":
                inside.set()
                release.wait(60)
            return super().get(name, default)

    nvml.fails = Blocking()
    telemetry = GpuTelemetry(GpuTelemetrySettings(), {})
    telemetry.start()
    try:
        await asyncio.to_thread(inside.wait, 30)
        assert telemetry.unready() is None
        assert [family.name for family in telemetry.collect()]
        await asyncio.to_thread(telemetry.stop)
        assert not release.is_set()
    finally:
        release.set()
    wait_for(lambda: nvml.sessions == 0)


def test_a_thread_of_its_own(nvml: FakeNvml) -> None:
    telemetry = GpuTelemetry(GpuTelemetrySettings(every_seconds=0.1), {})
    telemetry.stop()  # safe without a start
    telemetry = GpuTelemetry(GpuTelemetrySettings(every_seconds=0.1), {})
    telemetry.start()
    wait_for(lambda: nvml.calls.count("nvmlDeviceGetMemoryInfo") >= 3)
    telemetry.stop()
    assert nvml.sessions == 0
    assert nvml.calls[-1] == "nvmlShutdown"
    assert nvml.calls.count("nvmlInit") == 1


def test_an_uninitialised_session_at_the_end_is_nobodys_trouble(nvml: FakeNvml) -> None:
    watched = Watched()
    watched.step()
    nvml.fails["*"] = UNINITIALISED
    watched.telemetry.stop()

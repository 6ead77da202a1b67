"""Pulses as metrics."""

import math

from gpu_consumer.engine.protocol import MemoryReading, Pulse
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.running.gauges import PulseGauges
from gpu_consumer.spending import Spending
from schemas.uptime import STATES
from tests.kafka import POOL, small_catalogue
from tests.unit.gpu_consumer.work import FixedClock


def spending_on(metrics: GpuMetrics, clock: FixedClock) -> Spending:
    return Spending(metrics, clock, POOL, small_catalogue("t").pools[POOL])


def test_batch_fill_is_weighted_by_time() -> None:
    metrics = GpuMetrics()
    gauges = PulseGauges(metrics, spending_on(metrics, FixedClock()))
    value = metrics.registry.get_sample_value
    gauges.take(Pulse("step", "red", slots=4, fill=4, steps=10, models=("m",)), now=1.0)
    gauges.take(Pulse("step", "red", slots=4, fill=1, steps=15, step_seconds=0.2, models=("m", "n")), now=4.0)
    gauges.take(Pulse("nothing", steps=16, models=("m", "n")), now=5.0)
    assert value("kiln_gpu_step_seconds") == 0.2
    gauges.end(now=6.0)
    gauges.take(Pulse("step", "red", slots=4, fill=4, steps=20, models=("m",)), now=90.0)  # another engine
    gauges.end(now=91.0)
    gauges.take(Pulse("nothing", models=("m",)), now=200.0)
    assert value("kiln_gpu_slot_seconds_total", {"state": "filled"}) == 3.0 * 4 + 1.0 * 1 + 1.0 * 4
    assert value("kiln_gpu_slot_seconds_total", {"state": "empty"}) == 1.0 * 3
    assert value("kiln_gpu_steps_total") == 16 + 20
    assert value("kiln_gpu_model_loads_total") == 1


def test_memory_and_how_broken_up_it_is() -> None:
    metrics = GpuMetrics()
    gauges = PulseGauges(metrics, spending_on(metrics, FixedClock()))
    gauges.take(Pulse("nothing", memory=MemoryReading(allocated=3, reserved=4, predicted=5, free=6)), now=0.0)
    value = metrics.registry.get_sample_value
    kinds = ("allocated", "reserved", "predicted", "free")
    assert [value("kiln_gpu_memory_bytes", {"kind": kind}) for kind in kinds] == [3, 4, 5, 6]
    assert value("kiln_gpu_memory_fragmentation_ratio") == 0.25
    gauges.take(Pulse("nothing"), now=1.0)
    assert value("kiln_gpu_memory_fragmentation_ratio") == 0.0


def test_what_an_engine_that_is_gone_said_last_is_told_no_more() -> None:
    metrics = GpuMetrics()
    gauges = PulseGauges(metrics, spending_on(metrics, FixedClock()))
    value = metrics.registry.get_sample_value
    memory = MemoryReading(allocated=3, reserved=4, predicted=5, free=6)
    metrics.set("memory_bytes", 10, kind="total")
    gauges.take(Pulse("step", step_seconds=0.2, memory=memory), now=0.0)
    gauges.end(now=1.0)
    kinds = ("allocated", "reserved", "predicted", "free", "total")
    assert [value("kiln_gpu_memory_bytes", {"kind": kind}) for kind in kinds] == [None] * 4 + [10]
    for name in ("kiln_gpu_step_seconds", "kiln_gpu_memory_fragmentation_ratio"):
        assert math.isnan(value(name) or 0)
    gauges.take(Pulse("step", step_seconds=0.3, memory=memory), now=2.0)
    assert (value("kiln_gpu_step_seconds"), value("kiln_gpu_memory_bytes", {"kind": "free"})) == (0.3, 6)


def test_what_the_engine_does_is_paid_from_the_start_of_the_process() -> None:
    metrics, clock = GpuMetrics(), FixedClock()
    gauges = PulseGauges(metrics, spending_on(metrics, clock))
    value = metrics.registry.get_sample_value
    told = (
        Pulse("nothing"),  # the first, when all is loaded
        Pulse("step", "red", slots=4, fill=1),
        Pulse("load", "red", slots=4, fill=2),  # kernels are made, for pictures that have slots
        Pulse("load"),
        Pulse("step", "red", slots=4, fill=4),
        None,  # the engine died, and starts anew
        Pulse("nothing"),
        Pulse("step", "red", slots=4, fill=0),  # slots that nobody has
        Pulse("nothing"),
    )
    for seconds, pulse in enumerate(told, 1):
        clock.seconds += seconds
        if pulse is None:
            gauges.end(clock.steady())
        else:
            gauges.take(pulse, clock.steady())
    by_state = {state: value("kiln_gpu_state_seconds_total", {"state": state}) for state in STATES}
    assert by_state == {"loading": 1 + 5 + 7, "idle": 2 + 8 + 9, "busy": 3 + 4 + 6}
    usd = {state: value("kiln_gpu_state_cost_usd_total", {"state": state}) for state in STATES}
    assert usd == {state: seconds * 1.0 / 3600 for state, seconds in by_state.items() if seconds is not None}
    assert value("kiln_gpu_price_usd_per_hour") == 1.0

"""The list of metrics."""

import pytest
from prometheus_client.exposition import generate_latest

from gpu_consumer.metrics import METRICS, PREFIX, GpuMetrics


def test_names_follow_the_conventions_and_every_metric_says_what_it_means() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.name.startswith(PREFIX)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.meaning.endswith("."), metric.name
        assert (metric.kind == "histogram") == bool(metric.buckets), metric.name


def test_what_is_counted_is_exposed() -> None:
    metrics = GpuMetrics()
    metrics.count("settled_total", status="failed")
    metrics.set("lag_records", 4, lane="bulk", index="3")
    metrics.observe("batch_wait_seconds", 0.5)
    text = generate_latest(metrics.registry).decode()
    assert 'kiln_gpu_settled_total{status="failed"} 1.0' in text
    assert 'kiln_gpu_lag_records{index="3",lane="bulk"} 4.0' in text
    metrics.forget("lag_records", lane="bulk", index="3")
    assert 'index="3"' not in generate_latest(metrics.registry).decode()
    with pytest.raises(KeyError):
        metrics.count("unlisted_total")


def test_the_first_dead_letter_is_a_rise_and_so_is_the_first_failure() -> None:
    """A series that appears at 1 has not risen, as Prometheus sees it."""
    text = generate_latest(GpuMetrics().registry).decode()
    assert 'kiln_gpu_dead_letters_total{reason="malformed"} 0.0' in text
    assert 'kiln_gpu_settled_total{status="failed"} 0.0' in text

"""What all lists of metrics have in common."""

from prometheus_client.exposition import generate_latest

from streams.metric import Collectors, Labelled, Metric

METRICS = (
    Metric("kiln_x_jobs_total", "counter", "jobs", "Jobs.", ("status",), starts=(("failed",),)),
    Metric("kiln_x_wait_seconds", "histogram", "seconds", "Waits.", buckets=(1.0, 5.0)),
    Metric("kiln_x_room", "gauge", "jobs", "Room, which has a pool of its own.", ("pool",)),
)


def test_every_sample_of_a_process_has_what_the_process_has_in_common() -> None:
    collectors = Collectors("kiln_x_", METRICS)
    collectors.count("jobs_total", status="succeeded")
    collectors.observe("wait_seconds", 3)
    collectors.set("room", 4, pool="other")
    text = generate_latest(Labelled(collectors.registry, {"pool": "a"})).decode()
    assert 'kiln_x_jobs_total{pool="a",status="succeeded"} 1.0' in text
    assert 'kiln_x_wait_seconds_bucket{le="5.0",pool="a"} 1.0' in text
    assert 'process_start_time_seconds{pool="a"}' in text
    assert 'kiln_x_room{pool="other"} 4.0' in text, "what a sample says of itself stands"
    assert 'pool="a"' not in generate_latest(collectors.registry).decode(), "nothing is written into the metrics"


def test_what_starts_at_nothing_is_exposed_at_nothing() -> None:
    text = generate_latest(Collectors("kiln_x_", METRICS).registry).decode()
    assert 'kiln_x_jobs_total{status="failed"} 0.0' in text
    assert 'status="succeeded"' not in text

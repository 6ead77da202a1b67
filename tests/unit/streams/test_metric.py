"""What all lists of metrics have in common."""

import math

from prometheus_client.exposition import generate_latest

from streams.metric import SEEN_SECONDS, Collectors, Labelled, Metric

METRICS = (
    Metric("kiln_x_jobs_total", "counter", "jobs", "Jobs.", ("status",), starts=(("failed",),)),
    Metric("kiln_x_wait_seconds", "histogram", "seconds", "Waits.", buckets=(1.0, 5.0)),
    Metric("kiln_x_lag", "gauge", "records", "Lag.", ("topic", "partition")),
    Metric("kiln_x_end", "gauge", "records", "End.", ("topic", "partition"), seen=True),
    Metric("kiln_x_age_seconds", "gauge", "seconds", "Age."),
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


def test_a_gauge_that_nobody_knows_is_there_no_more() -> None:
    collectors = Collectors("kiln_x_", METRICS)
    collectors.tell("lag", 4, partition="1", topic="a")
    collectors.tell("lag", 5, partition="2", topic="a")
    collectors.tell("age_seconds", 6)
    value = collectors.registry.get_sample_value
    assert (value("kiln_x_lag", {"topic": "a", "partition": "1"}), value("kiln_x_age_seconds")) == (4, 6)
    for _ in range(2):
        collectors.tell("lag", None, partition="1", topic="a")
        collectors.tell("age_seconds", None)
    assert value("kiln_x_lag", {"topic": "a", "partition": "1"}) is None
    assert value("kiln_x_lag", {"topic": "a", "partition": "2"}) == 5
    assert math.isnan(value("kiln_x_age_seconds") or 0)


def test_what_nobody_sees_any_more_leaves_by_itself() -> None:
    """In an outage of its source a gauge would keep its last value, and an alert would believe it."""
    now = 1000.0
    collectors = Collectors("kiln_x_", METRICS, lambda: now)

    def end(partition: str) -> float | None:
        found: float | None = collectors.registry.get_sample_value("kiln_x_end", {"topic": "a", "partition": partition})
        return found

    collectors.set("end", 4, partition="1", topic="a")
    collectors.set("end", 5, partition="2", topic="a")
    collectors.set("room", 6, pool="a")
    now += SEEN_SECONDS
    collectors.set("end", 7, partition="2", topic="a")
    assert (end("1"), end("2")) == (4, 7)
    now += 1
    assert (end("1"), end("2")) == (None, 7)
    assert collectors.registry.get_sample_value("kiln_x_room", {"pool": "a"}) == 6, "nobody else is asked for it"
    collectors.set("end", 8, partition="1", topic="a")
    collectors.forget("end", topic="a", partition="2")
    assert (end("1"), end("2")) == (8, None)
    assert "# HELP kiln_x_end End. Unit: records." in generate_latest(collectors.registry).decode()


def test_what_starts_at_nothing_is_exposed_at_nothing() -> None:
    text = generate_latest(Collectors("kiln_x_", METRICS).registry).decode()
    assert 'kiln_x_jobs_total{status="failed"} 0.0' in text
    assert 'status="succeeded"' not in text

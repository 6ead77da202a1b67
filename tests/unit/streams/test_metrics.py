"""The list of metrics is what is exposed."""

from streams.metrics import METRICS, PREFIX, AdmissionMetrics


def test_names_follow_prometheus() -> None:
    for metric in METRICS:
        assert metric.name.startswith(PREFIX)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.unit
        assert metric.meaning.endswith(".")
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_a_partition_that_left_leaves_no_frozen_gauge() -> None:
    metrics = AdmissionMetrics()
    metrics.set("lag", 7, partition="3")
    metrics.count("lease_voids_total", partition="3")
    metrics.forget_partition(3)
    metrics.forget_partition(3)
    assert metrics.registry.get_sample_value("kiln_admission_lag", {"partition": "3"}) is None
    assert metrics.registry.get_sample_value("kiln_admission_lease_voids_total", {"partition": "3"}) == 1

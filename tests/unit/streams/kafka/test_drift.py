import pytest

from schemas.topics import TopicSpec
from streams.kafka.drift import Observed, drift, forgets, min_in_sync

SPEC = TopicSpec("t", 2, {"cleanup.policy": "compact,delete", "retention.ms": "5"})
CONFIG = {"cleanup.policy": "delete,compact", "retention.ms": "5", "other": "x"}


def _drift(observed: Observed | None, replication: int = 1) -> list[str]:
    return list(drift(SPEC, observed, replication))


@pytest.mark.parametrize(("replicas", "in_sync"), [(1, "1"), (2, "1"), (3, "2"), (5, "2"), (5, "3")])
def test_no_drift(replicas: int, in_sync: str) -> None:
    observed = Observed(2, replicas, CONFIG | {"min.insync.replicas": in_sync})
    assert _drift(observed, min(3, replicas)) == []


def test_missing_is_all_there_is_to_say() -> None:
    assert _drift(None) == ["t is missing; `kiln topics create` creates it."]


@pytest.mark.parametrize(
    ("observed", "replication", "said"),
    [
        (Observed(1, 1, CONFIG), 1, "t has 1 partition and the catalogue says 2; "),
        (Observed(2, 1, CONFIG | {"retention.ms": "6"}), 1, "t has retention.ms=6 and the catalogue says 5; "),
        (Observed(2, 1, {"cleanup.policy": "compact,delete"}), 1, "t has retention.ms=None and the catalogue says 5; "),
        (Observed(2, 1, CONFIG | {"cleanup.policy": "delete"}), 1, "t has cleanup.policy=delete and the catalogue "),
        (Observed(2, 1, CONFIG), 3, "t has 1 of 3 replicas and loses records with a broker; "),
        (Observed(2, 1, CONFIG | {"min.insync.replicas": "2"}), 1, "t has min.insync.replicas=2 and 1 replica, so "),
        (Observed(2, 3, CONFIG | {"min.insync.replicas": "1"}), 3, "t has min.insync.replicas=1, so an acknowledged "),
        (Observed(2, 3, CONFIG | {"min.insync.replicas": "3"}), 3, "t has min.insync.replicas=3 with as many "),
    ],
)
def test_one_sentence_each_with_its_cure(observed: Observed, replication: int, said: str) -> None:
    (sentence,) = _drift(observed, replication)
    assert sentence.startswith(said)
    assert sentence.endswith(".")
    assert ";" in sentence


def test_a_list_is_named_as_kafka_s_tool_takes_it() -> None:
    (sentence,) = _drift(Observed(2, 1, CONFIG | {"cleanup.policy": "delete"}))
    assert "`kafka-configs.sh --alter --topic t --add-config cleanup.policy=[compact,delete]`" in sentence


@pytest.mark.parametrize(("replication", "expected"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_one_broker_can_be_lost_without_a_record_or_a_stop(replication: int, expected: int) -> None:
    assert min_in_sync(replication) == expected


def test_brokers_that_forget_before_the_next_renewal_are_told_of() -> None:
    assert forgets(1440, 21_600, "KILN_X") is None
    assert forgets(10, 21_600, "KILN_X") == (
        "The brokers forget the offsets of a group at rest after 10 minutes, and then what was done counts as work "
        "again; raise offsets.retention.minutes to 1440, or lower KILN_X to 150."
    )

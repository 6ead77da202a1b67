from pathlib import Path

import pytest

from infra.broker.errors import BrokerError
from infra.broker.profile import Node, render_properties, server_properties

ONE = (Node(1, 20001, 20002),)
THREE = (Node(1, 20001, 20002), Node(2, 20003, 20004), Node(3, 20005, 20006))


def test_one_broker_keeps_one_copy() -> None:
    properties = server_properties(ONE[0], ONE, Path("/data"))
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:20002"
    assert {properties[key] for key in properties if key.endswith((".factor", "min.isr", "insync.replicas"))} == {"1"}


def test_three_brokers_can_lose_one() -> None:
    properties = server_properties(THREE[1], THREE, Path("/data"))
    assert properties["node.id"] == "2"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:20003,CONTROLLER://127.0.0.1:20004"
    assert properties["controller.quorum.voters"].count("@") == 3
    assert {properties[key] for key in properties if key.endswith(".factor")} == {"3"}
    assert {properties[key] for key in properties if key.endswith(("min.isr", "insync.replicas"))} == {"2"}


def test_a_record_of_any_topic_fits_from_end_to_end() -> None:
    properties = server_properties(ONE[0], ONE, Path("/data"))
    assert int(properties["message.max.bytes"]) == int(properties["replica.fetch.max.bytes"]) == 8 << 20


def test_nothing_listens_beyond_the_loopback() -> None:
    properties = server_properties(THREE[0], THREE, Path("/data"))
    for listener in (properties["listeners"] + "," + properties["advertised.listeners"]).split(","):
        assert "://127.0.0.1:" in listener


def test_a_path_that_kafka_would_split_is_refused() -> None:
    with pytest.raises(BrokerError, match="KILN_HOME"):
        server_properties(ONE[0], ONE, Path("/a,b"))


def test_properties_survive_java() -> None:
    assert render_properties({"log.dirs": "/tmp/back\\slash é 窯 🎨"}) == (
        "log.dirs=/tmp/back\\\\slash \\u00e9 \\u7aaf \\ud83c\\udfa8\n"
    )

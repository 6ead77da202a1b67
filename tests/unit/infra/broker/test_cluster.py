import socket
from pathlib import Path

import pytest

from infra.broker.cluster import Place, new_cluster
from infra.broker.errors import BrokerError


def test_ports_are_free_and_distinct() -> None:
    cluster = new_cluster(3)
    ports = [port for node in cluster.nodes for port in (node.client_port, node.controller_port)]
    assert len(set(ports)) == 6
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_old_ports_are_kept_while_they_are_free() -> None:
    cluster = new_cluster(1)
    assert cluster.with_free_ports() == cluster
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", cluster.nodes[0].controller_port))
        taken.listen()
        moved = cluster.with_free_ports()
    assert moved.cluster_id == cluster.cluster_id
    assert moved.nodes[0].number == 1
    assert moved.nodes[0].controller_port != cluster.nodes[0].controller_port


def test_the_id_is_never_taken_for_an_option() -> None:
    ids = {new_cluster(1).cluster_id for _ in range(200)}
    assert len(ids) == 200
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)


def test_a_cluster_survives_the_disk(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.cluster() is None
    cluster = new_cluster(3)
    place.write_cluster(cluster)
    assert place.cluster() == cluster
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(BrokerError, match=r"cluster\.json is damaged; remove the folder"):
        Place(tmp_path).cluster()


@pytest.mark.parametrize("content", ["", "no number", None])
def test_no_readable_pid_is_no_pid(tmp_path: Path, content: str | None) -> None:
    place, node = Place(tmp_path), new_cluster(1).nodes[0]
    if content is not None:
        (tmp_path / "1.pid").write_text(content)
    assert place.pid(node) is None

"""What the broker keeps on disk between commands, and the ports that its nodes get.

KILN_HOME/broker/cluster.json    cluster id and ports: written once, ports again where one was taken
KILN_HOME/broker/bootstrap       host:port of every node, there only while the broker is ready
KILN_HOME/broker/N.properties    node N's configuration, also the mark by which its process is known
KILN_HOME/broker/N.pid
KILN_HOME/broker/data/N, log/N.log
"""

import fcntl
import os
import random
import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from infra.broker.errors import BrokerError
from infra.broker.profile import HOST, Node

# Below the range from which the kernel draws ports of outgoing connections, so that none of those takes ours
# between the look and the bind.
_PORTS = range(20000, 32000)
_PORT_TRIES = 500


class Cluster(BaseModel):
    """The cluster's identity. Its id binds the data to it; ports may change from one start to the next."""

    model_config = ConfigDict(frozen=True)

    cluster_id: str
    nodes: tuple[Node, ...]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.client_port}" for node in self.nodes)

    def with_free_ports(self) -> "Cluster":
        """The same cluster on its old ports if all are free, else on new ones."""
        ports = [port for node in self.nodes for port in (node.client_port, node.controller_port)]
        if all(_is_free(port) for port in ports):
            return self
        return self.with_new_ports()

    def with_new_ports(self) -> "Cluster":
        return Cluster(cluster_id=self.cluster_id, nodes=_nodes(len(self.nodes)))


def new_cluster(brokers: int) -> Cluster:
    while (cluster_id := urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass  # Kafka's tools would take it for an option
    return Cluster(cluster_id=cluster_id, nodes=_nodes(brokers))


class Place:
    """The broker's folder. Reading and writing it never starts or stops anything."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bootstrap_file = directory / "bootstrap"
        self._cluster_file = directory / "cluster.json"

    def data(self, node: Node) -> Path:
        return self.directory / "data" / str(node.number)

    def log(self, node: Node) -> Path:
        return self.directory / "log" / f"{node.number}.log"

    def output(self, node: Node) -> Path:
        """What Java itself prints, before and beside the log."""
        return self.directory / "log" / f"{node.number}.out"

    def properties(self, node: Node) -> Path:
        return self.directory / f"{node.number}.properties"

    def pid(self, node: Node) -> int | None:
        try:
            return int(self._pid_file(node).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def write_pid(self, node: Node, pid: int) -> None:
        write_atomically(self._pid_file(node), f"{pid}\n")

    def forget_pid(self, node: Node) -> None:
        self._pid_file(node).unlink(missing_ok=True)

    def cluster(self) -> Cluster | None:
        """None where no broker was ever started here. Raises BrokerError where the file is damaged."""
        try:
            return Cluster.model_validate_json(self._cluster_file.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise BrokerError(
                f"{self._cluster_file} is damaged; remove the folder {self.directory} to begin with an empty broker."
            ) from error

    def write_cluster(self, cluster: Cluster) -> None:
        write_atomically(self._cluster_file, cluster.model_dump_json(indent=2) + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time changes the broker; blocks until the other one has ended."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _pid_file(self, node: Node) -> Path:
        return self.directory / f"{node.number}.pid"


def write_atomically(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)


def _nodes(count: int) -> tuple[Node, ...]:
    ports = _free_ports(2 * count)
    return tuple(Node(i + 1, ports[2 * i], ports[2 * i + 1]) for i in range(count))


def _free_ports(count: int) -> Sequence[int]:
    free: set[int] = set()
    # At random, so that two brokers started together rarely want the same.
    for port in random.sample(_PORTS, _PORT_TRIES):
        if _is_free(port):
            free.add(port)
        if len(free) == count:
            return sorted(free)
    raise BrokerError(f"Found no {count} free ports in {_PORTS.start} to {_PORTS.stop}; stop what holds them.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Java's server sockets do: a connection of the former broker in TIME_WAIT does not hold the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True

"""The broker's profile: the server properties of one KRaft node, as a pure function of its place in the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.broker.errors import BrokerError

HOST = "127.0.0.1"
MESSAGE_BYTES_MAX = 8 << 20  # above the largest record of any topic (4 MiB), so that a topic's own limit decides
_YEAR_MINUTES = 365 * 24 * 60


@dataclass(frozen=True, slots=True)
class Node:
    """One broker process, numbered from 1, which is broker and controller at once."""

    number: int
    client_port: int
    controller_port: int


def server_properties(node: Node, nodes: Sequence[Node], data: Path) -> dict[str, str]:
    """Properties of `node` in the cluster `nodes`, with its log in `data`. Raises BrokerError where Kafka cannot
    take the path."""
    if "," in str(data):
        raise BrokerError(f"Kafka reads a comma in {data} as the end of the path; set KILN_HOME to a path without one.")
    replication = min(3, len(nodes))
    in_sync = max(1, replication - 1)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        # Voters from the configuration, not from the log: ports may differ from one start to the next.
        "controller.quorum.voters": ",".join(f"{each.number}@{HOST}:{each.controller_port}" for each in nodes),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{node.client_port},CONTROLLER://{HOST}:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{node.client_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data),
        # A misspelt topic is an error, never a new topic.
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(replication),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replication),
        "transaction.state.log.replication.factor": str(replication),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replication),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "1",
        # An expired offset makes lag count consumed records again.
        "offsets.retention.minutes": str(_YEAR_MINUTES),
        # A dead producer's open transaction stalls every read_committed reader until this sweep.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "message.max.bytes": str(MESSAGE_BYTES_MAX),
        "replica.fetch.max.bytes": str(MESSAGE_BYTES_MAX),
        "replica.fetch.response.max.bytes": str(2 * MESSAGE_BYTES_MAX),
        # The rest fits a small heap and a small machine. The cleaner alone would take 128 MiB.
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        "log.index.size.max.bytes": str(1 << 20),
        "log.segment.bytes": str(256 << 20),
        "log.segment.delete.delay.ms": "1000",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "4",
        "num.recovery.threads.per.data.dir": "2",
        "metadata.max.idle.interval.ms": "5000",
        # A lone voter elects itself after this; three must not all stand at once.
        "controller.quorum.election.timeout.ms": "200" if len(nodes) == 1 else "1000",
        # A killed broker may register again, and its partitions get new leaders, only when its session has ended.
        "broker.session.timeout.ms": "3000" if len(nodes) == 1 else "4000",
        "broker.heartbeat.interval.ms": "1000",
    }


def render_properties(properties: Mapping[str, str]) -> str:
    """A java.util.Properties file: Latin-1 with escapes, so that any path survives."""
    return "".join(f"{name}={_escape(value)}\n" for name, value in properties.items())


def _escape(value: str) -> str:
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)

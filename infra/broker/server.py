"""Start, stop and look at the development broker: Apache Kafka in KRaft mode, one process or three.

Every function here blocks, runs an event loop of its own (so not inside another), and raises BrokerError with a
sentence. Commands of two terminals take turns.
"""

import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.console import Console

from infra.broker import probe, process
from infra.broker.cluster import Cluster, Place, new_cluster, write_atomically
from infra.broker.errors import BrokerError, PortTaken
from infra.broker.jars import ensure_jars
from infra.broker.profile import Node, render_properties, server_properties
from infra.broker.settings import BrokerSettings

_PORT_ATTEMPTS = 3
_FORMAT_SECONDS = 120.0
_LOG_TAIL_BYTES = 64 << 10


class State(StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    CRASHED = "crashed"  # some process ended without `down`
    SILENT = "silent"  # all processes live, and no record is acknowledged


@dataclass(frozen=True, slots=True)
class Status:
    """What `status` found. `sentence` is for people; memory is resident bytes of all nodes, None where unknown."""

    state: State
    sentence: str
    bootstrap: str | None = None
    pids: tuple[int, ...] = ()
    resident_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """What `up` did. `seconds` is the time from the first process to the first acknowledged record."""

    bootstrap: str
    already_running: bool
    seconds: float


def up(settings: BrokerSettings, console: Console, *, brokers: int | None = None, tied: bool = False) -> Started:
    """Start the broker unless it runs and answers, and return once a produce has succeeded. `brokers` None means as
    many as there were, or one. What crashed is started again on its data. `tied` processes stop with the
    calling thread (Linux)."""
    place = Place(settings.broker_directory)
    with place.locked():
        cluster = _cluster(place, brokers)
        found = _look(place, cluster)
        if found.state is State.RUNNING:
            return Started(cluster.bootstrap, already_running=True, seconds=0.0)
        jars = ensure_jars(settings, console)
        if found.state is State.CRASHED and found.pids:
            # The others go on while the lost ones come back.
            with suppress(PortTaken):
                return _start(place, cluster, jars, settings, tied=tied)
        _stop(place, cluster, settings)
        return _start_on_free_ports(place, cluster, jars, settings, tied=tied)


def down(settings: BrokerSettings) -> bool:
    """Stop the broker and keep its data. False where none ran."""
    place = Place(settings.broker_directory)
    if not place.directory.exists():
        return False
    with place.locked():
        cluster = place.cluster()
        return cluster is not None and _stop(place, cluster, settings)


def status(settings: BrokerSettings) -> Status:
    """Look, and try one produce where all processes live. Changes nothing."""
    place = Place(settings.broker_directory)
    cluster = place.cluster()
    if cluster is None:
        return Status(State.STOPPED, f"No broker was ever started in {place.directory}; `kiln broker up` starts one.")
    return _look(place, cluster)


def _cluster(place: Place, brokers: int | None) -> Cluster:
    cluster = place.cluster()
    if cluster is None:
        return new_cluster(brokers or 1)
    if brokers not in {None, len(cluster.nodes)}:
        raise BrokerError(
            f"{place.directory} holds the data of a cluster of {len(cluster.nodes)}, not {brokers}; start it without "
            "--brokers, set KILN_HOME to another folder, or stop it and remove that folder."
        )
    return cluster


def _look(place: Place, cluster: Cluster) -> Status:
    known = {node.number: pid for node in cluster.nodes if (pid := place.pid(node)) is not None}
    live = {node.number: pid for node, pid in _live(place, cluster)}
    if not known:
        return Status(State.STOPPED, "The broker is stopped; `kiln broker up` starts it.")
    pids = tuple(live.values())
    if len(live) < len(cluster.nodes):
        lost = ", ".join(str(node.number) for node in cluster.nodes if node.number not in live)
        sentence = (
            f"Broker process {lost} of {len(cluster.nodes)} is gone; `kiln broker up` starts it again on its data."
        )
        return Status(State.CRASHED, sentence, None, pids, _memory(pids))
    reason = probe.why_not_ready(cluster.bootstrap, replication=min(3, len(cluster.nodes)))
    if reason is not None:
        sentence = f"The broker runs and acknowledges nothing ({reason}); its log is in {place.directory / 'log'}."
        return Status(State.SILENT, sentence, cluster.bootstrap, pids, _memory(pids))
    return Status(State.RUNNING, f"The broker runs at {cluster.bootstrap}.", cluster.bootstrap, pids, _memory(pids))


def _start_on_free_ports(
    place: Place, cluster: Cluster, jars: list[Path], settings: BrokerSettings, *, tied: bool
) -> Started:
    cluster = cluster.with_free_ports()
    for _ in range(_PORT_ATTEMPTS - 1):
        with suppress(PortTaken):
            return _start(place, cluster, jars, settings, tied=tied)
        cluster = cluster.with_new_ports()
    return _start(place, cluster, jars, settings, tied=tied)


def _start(place: Place, cluster: Cluster, jars: list[Path], settings: BrokerSettings, *, tied: bool) -> Started:
    """Start the nodes that do not live."""
    live = {node.number for node, _ in _live(place, cluster)}
    lost = [node for node in cluster.nodes if node.number not in live]
    place.write_cluster(cluster)
    for node in lost:
        place.log(node).parent.mkdir(parents=True, exist_ok=True)
        properties = server_properties(node, cluster.nodes, place.data(node))
        write_atomically(place.properties(node), render_properties(properties))
    _format(place, cluster, jars, settings)
    started = time.monotonic()
    try:
        children = [_start_node(place, node, jars, settings, tied=tied) for node in lost]
        probe.wait_ready(
            cluster.bootstrap,
            replication=min(3, len(cluster.nodes)),
            seconds=settings.broker_ready_seconds,
            check_alive=lambda: _check_alive(place, children),
        )
    except BaseException:
        # Also on Ctrl-C: what is half started would hold its ports and its lock on the data.
        _stop(place, cluster, settings)
        raise
    write_atomically(place.bootstrap_file, f"{cluster.bootstrap}\n")
    return Started(cluster.bootstrap, already_running=False, seconds=time.monotonic() - started)


def _format(place: Place, cluster: Cluster, jars: list[Path], settings: BrokerSettings) -> None:
    """Give each new data folder the cluster's id; one that has it is left as it is."""
    commands = [
        process.java_command(
            jars,
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", cluster.cluster_id, "--config", str(place.properties(node))),
            heap_mib=settings.broker_heap_mib,
        )
        for node in cluster.nodes
        if not (place.data(node) / "meta.properties").exists()
    ]
    # Together, as each is a second of mostly waiting for Java.
    children = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603
        for command in commands
    ]
    try:
        for child in children:
            output, _ = child.communicate(timeout=_FORMAT_SECONDS)
            if child.returncode:
                raise BrokerError(f"The broker's data folder cannot be prepared: {_last_complaint(output)}")
    finally:
        for child in children:
            child.kill()
            child.communicate()


def _start_node(
    place: Place, node: Node, jars: list[Path], settings: BrokerSettings, *, tied: bool
) -> tuple[Node, subprocess.Popen[bytes]]:
    for old in (place.log(node), place.output(node)):
        old.unlink(missing_ok=True)  # so that a reason read from it is this start's
    command = process.java_command(
        jars, "kafka.Kafka", str(place.properties(node)), heap_mib=settings.broker_heap_mib, log=place.log(node)
    )
    child = process.start(command, place.output(node), tied=tied)
    place.write_pid(node, child.pid)
    return node, child


def _check_alive(place: Place, children: Iterable[tuple[Node, subprocess.Popen[bytes]]]) -> None:
    for node, child in children:
        if (code := child.poll()) is None:
            continue
        said = _tail(place.log(node)) + _tail(place.output(node))
        if "Address already in use" in said:
            raise PortTaken(f"Port {node.client_port} or {node.controller_port} is taken; run `kiln broker up` again.")
        reason = _last_complaint(said).rstrip(".")
        raise BrokerError(
            f"Broker {node.number} ended with {code} while starting: {reason} (its log is {place.log(node)})."
        )


def _stop(place: Place, cluster: Cluster, settings: BrokerSettings) -> bool:
    live = _live(place, cluster)
    # First, so that nobody is sent to a broker that is going.
    place.bootstrap_file.unlink(missing_ok=True)
    process.stop([(pid, place.properties(node)) for node, pid in live], seconds=settings.broker_stop_seconds)
    for node in cluster.nodes:
        place.forget_pid(node)
    return bool(live)


def _live(place: Place, cluster: Cluster) -> list[tuple[Node, int]]:
    known = [(node, pid) for node in cluster.nodes if (pid := place.pid(node)) is not None]
    return [(node, pid) for node, pid in known if process.is_ours(pid, place.properties(node))]


def _memory(pids: Iterable[int]) -> int | None:
    each = [process.resident_bytes(pid) for pid in pids]
    return sum(size for size in each if size is not None) if any(each) else None


def _tail(path: Path) -> str:
    try:
        return path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except FileNotFoundError:
        return ""


def _last_complaint(said: str) -> str:
    """The line that most likely tells the reason: the last that names an error, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    complaints = [line for line in lines if "ERROR" in line or "Exception" in line or "Error" in line]
    return (complaints or lines or ["it said nothing"])[-1]

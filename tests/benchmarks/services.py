"""What the benchmarks on a broker run: a deployment without quotas, its services, and the copy loop beside them."""

import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.benchmarks.load import TENANTS, Watcher
from tests.fault.children import Child, stop_all
from tests.fault.history import Limit
from tests.fault.reader import holders_of
from tests.fault.waiting import Deadline
from tests.fault.world import POOL, World, make_world

_NO_LIMIT = Limit(burst=1e9, per_second=1e6)
# Nobody does the work, and what waits for it is not to be refused.
_NO_OVERLOAD = dict.fromkeys(("KILN_ADMISSION_DEGRADE_WAIT_SECONDS", "KILN_ADMISSION_REFUSE_WAIT_SECONDS"), "1e9")
_STOP_SECONDS = 40
_START_SECONDS = 60


def deployment(bootstrap: str, folder: Path, name: str, settings: Mapping[str, str]) -> World:
    """Topics and declarations of their own, where every tenant of the benchmarks may do what it likes."""
    limits = dict.fromkeys(TENANTS, _NO_LIMIT)
    prefix = f"bench-{name}-{secrets.token_hex(3)}"
    return make_world(folder / name, bootstrap, prefix=prefix, limits=limits, settings={**_NO_OVERLOAD, **settings})


def work_of(world: World) -> list[tuple[str, int]]:
    """Every partition of work."""
    partitions = world.catalogue.pools[POOL].partitions
    return [(topic, partition) for topic in world.work_topics for partition in range(partitions)]


@contextmanager
def running(children: Sequence[Child], deadline: Deadline) -> Iterator[None]:
    """Stops them in order where all went well; kills whatever is left."""
    try:
        yield
        stop_all(children, deadline, seconds=_STOP_SECONDS)
    finally:
        for child in children:
            child.destroy()


def start(child: Child, bootstrap: str, group: str, deadline: Deadline) -> None:
    """Start a service and wait until it holds partitions. Raises TooLate."""

    def holds() -> bool:
        assert child.running, f"{child.name} ended with {child.exit_status}; see {child.log}"
        return child.ready() and child.client_id in holders_of(bootstrap, group)

    child.start()
    deadline.wait_for(holds, f"{child.name} to hold partitions", seconds=_START_SECONDS)


@contextmanager
def copy_loop(world: World, *, validating: bool) -> Iterator[tuple[Watcher, int]]:
    """The peer that only copies, on the requests of `world`. Yields a reader of its copies, and its process id."""
    catalogue = world.catalogue
    target = f"{world.mark}.copies"
    admin = AdminClient({"bootstrap.servers": world.bootstrap, "log_level": 4})
    admin.create_topics([NewTopic(target, catalogue.requests_partitions, 1)])[target].result()
    command = [sys.executable, "-m", "tests.benchmarks.copy_loop", world.bootstrap, f"{world.mark}.copy"]
    command += [catalogue.requests, target, *(["--validate"] if validating else [])]
    partitions = [(target, partition) for partition in range(catalogue.requests_partitions)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as loop,
        closing(Watcher(world.bootstrap, partitions)) as watcher,
    ):
        try:
            assert loop.stdout is not None
            assert loop.stdout.readline() == b"ready\n", "the copy loop did not start"
            yield watcher, loop.pid
        finally:
            loop.kill()

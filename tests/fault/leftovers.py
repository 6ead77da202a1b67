"""What must not outlive a run: processes, shared memory, and assertions that failed inside the services."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.fault.children import Child, marked, shared_memory, unmapped
from tests.fault.history import Flaw
from tests.fault.storm import Deeds
from tests.fault.waiting import Deadline, TooLate

# Our own bugs, said in the services' own output. A warning or an error that names the world is no flaw.
_CONFESSIONS = re.compile(r"AssertionError|exception was never retrieved|was never awaited|RuntimeWarning|SystemError")
_GONE_SECONDS = 10.0


def find_leftovers(mark: str, memory_before: set[str]) -> Iterator[Flaw]:
    """Processes with our mark and shared memory that nobody has mapped, after a moment to go away by themselves."""
    moment = Deadline(_GONE_SECONDS)
    try:
        moment.wait_for(lambda: not marked(mark), "the last process to go")
        moment.wait_for(lambda: not unmapped(shared_memory() - memory_before), "shared memory to go")
    except TooLate:
        for process in marked(mark):
            yield Flaw("process_left", process)
        for name in sorted(unmapped(shared_memory() - memory_before)):
            yield Flaw("shared_memory_left", name)


def find_confessions(logs: list[Path]) -> Iterator[Flaw]:
    """Lines in which a service names a bug of its own."""
    for log in logs:
        for number, line in enumerate(log.read_text(errors="replace").splitlines(), start=1):
            if _CONFESSIONS.search(line):
                yield Flaw("confession", f"{log.name}:{number}: {line.strip()[:200]}")


def find_bad_ends(deeds: Deeds, children: list[Child]) -> Iterator[Flaw]:
    """Processes that did not stop when asked, or not with status 0, or ended by themselves with a signal."""
    for name in deeds.slow_stops:
        yield Flaw("slow_stop", f"{name} did not end within its grace and was killed")
    for sentence in deeds.bad_exits:
        yield Flaw("bad_exit", sentence)
    for child in children:
        for status in child.deaths_of_its_own:
            if status < 0 or status == 0:
                yield Flaw("odd_death", f"{child.name} ended by itself with {status}; see {child.log.name}")

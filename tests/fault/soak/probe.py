"""What a process holds, read from /proc: memory, descriptors, threads, children, and the CPU time it took."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Holding:
    """`resident_bytes` without pages of files, which the kernel may drop; `cpu_seconds` since the process began."""

    resident_bytes: int
    descriptors: int
    memory_files: int  # anonymous ones, by which pictures go from an engine to its consumer
    threads: int
    children: int
    cpu_seconds: float


def holding(pid: int) -> Holding:
    """Linux only. Raises OSError where there is no such process."""
    folder = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    ends = []
    for descriptor in (folder / "fd").iterdir():
        try:
            ends.append(str(descriptor.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return Holding(
        resident_bytes=int(status["RssAnon"].split()[0]) << 10,
        descriptors=len(ends),
        memory_files=sum(end.startswith("/memfd:") for end in ends),
        threads=int(status["Threads"]),
        children=len(children_of(pid)),
        cpu_seconds=_cpu_seconds(pid),
    )


def children_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return sorted(found)


def _cpu_seconds(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS  # utime and stime, fields 14 and 15

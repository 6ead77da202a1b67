"""bench-admission: the whole of admission on a real Kafka, beside a copy loop and beside stream frameworks.

    python -m tests.benchmarks.admission [--peers all | none | quixstreams,...] [--prompts FILE]

Everything runs on one broker in one run: a loop that copies and also decodes and validates each event, and beside it,
one after the other, the same loop without that, admission by each of its intakes, and each peer, which does what
admission does by calling admission's own decision; their guarantees differ, and stand in the table. FILE has a prompt a
line, up to a tab.

Bars are ratios to what ran beside; a shared machine moves them by a fifth. Exit status 1 where one is missed or a
service fails; a peer that cannot be installed is left out, and said to be.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.admission.cpu import Cpu, decision_and_validation
from tests.benchmarks.admission.measuring import Figures
from tests.benchmarks.admission.peers import OURS, PEERS, Peer
from tests.benchmarks.admission.run import CONFIGS, Failed, Run, Takeover
from tests.benchmarks.environments import NotInstallable
from tests.benchmarks.report import FOLDER, Measure, report
from tests.fault.waiting import Deadline
from tests.fault.world import SESSION_SECONDS, broker

NAMES = 100_000  # in the window at the takeover
COPY, VALIDATING, PLAIN, FAUST = "copy loop", "copy loop, validating", "plain intake", "Faust intake"
_RUN_SECONDS = 345.0
_PEER_SECONDS = 75.0  # what a slow one takes on a busy machine
_TABLE_WIDTH = 150

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Measure, report, and say by the exit status whether every bar was met."""
    peers, prompts = _arguments()
    folder = FOLDER / f"admission-{os.getpid()}"
    left_out: dict[str, str] = {}
    failures: list[str] = []
    taken: Takeover | None = None
    try:
        with broker(folder / "home", console) as bootstrap:
            run = Run(bootstrap, folder, prompts, Deadline(_RUN_SECONDS), console)
            with run.beside_copies(VALIDATING):
                run.copy(COPY)
                try:
                    taken = run.admission_until_killed(PLAIN, "plain", NAMES)
                except Failed as reason:
                    failures.append(str(reason))
                run.admission(FAUST, "faust")
                for peer in peers:
                    if run.deadline.left < _PEER_SECONDS:
                        left_out[peer.name] = "this machine was too busy, and no time is left"
                        continue
                    try:
                        run.peer(peer)
                    except NotInstallable as reason:
                        left_out[peer.name] = str(reason)
                    except Failed as reason:
                        left_out[peer.name] = str(reason)
                        failures.append(str(reason))
    finally:
        shutil.rmtree(folder / "home", ignore_errors=True)
    if not failures:
        shutil.rmtree(folder, ignore_errors=True)  # else the logs are wanted
    cpu = decision_and_validation(prompts, CONFIGS)
    _print_table(run.figures, left_out)
    met = report("admission", measures_of(run.figures, taken, cpu), console)
    for failure in failures:
        console.print(failure, style="red")
    return 0 if met and not failures else 1


def _arguments() -> tuple[list[Peer], list[str]]:
    parser = argparse.ArgumentParser(prog="bench-admission")
    packages = list(dict.fromkeys(peer.package for peer in PEERS))
    parser.add_argument("--peers", default="all", help=f"all, none, or some of {','.join(packages)}")
    parser.add_argument("--prompts", type=Path, help="a file with a prompt a line, up to the first tab")
    given = parser.parse_args()
    wanted = packages if given.peers == "all" else [] if given.peers == "none" else given.peers.split(",")
    if unknown := set(wanted) - set(packages):
        parser.error(f"no peer is called {', '.join(sorted(unknown))}; there are {', '.join(packages)}")
    lines = given.prompts.read_text(encoding="utf-8").splitlines() if given.prompts else []
    prompts = [prompt for line in lines if (prompt := line.split("\t")[0].strip())]
    return [peer for peer in PEERS if peer.package in wanted], prompts


def measures_of(figures: Mapping[str, Figures], taken: Takeover | None, cpu: Cpu) -> dict[str, Measure]:
    """Facts first, then the ratios that carry bars. What did not run is left out."""
    copies = [rate for each in figures.values() for rate in each.beside]
    return {
        "machine_noise": Measure(max(copies) / min(copies), "x", "lower", peer="the copy loop's fastest and slowest"),
        "decide": Measure(cpu.decision * 1e6, "µs", "lower", peer="of CPU"),
        "validate": Measure(cpu.validation * 1e6, "µs", "lower", peer="of CPU"),
        "plain_to_copy": Measure(figures[PLAIN].share, "x", "higher", goal=0.5, bar=0.25, peer=VALIDATING),
        "faust_to_copy": Measure(figures[FAUST].share, "x", "higher", goal=0.25, bar=0.12, peer=VALIDATING),
        **{
            f"plain_to_{peer.label}": _beside(figures[PLAIN], figures[peer.name], peer)
            for peer in PEERS
            if peer.name in figures
        },
        "validate_to_decide": Measure(
            cpu.validation / cpu.decision, "x", "higher", goal=0.6, bar=0.08, peer="CPU of bare validation"
        ),
        **({} if taken is None else _of_takeover(taken)),
    }


def _of_takeover(taken: Takeover) -> dict[str, Measure]:
    opening = taken.opening
    return {
        "takeover_first": Measure(taken.first, "s", "lower", peer=f"after a session of {SESSION_SECONDS:g} s"),
        "takeover_all": Measure(taken.last, "s", "lower", peer="a decision on every partition"),
        "opening": Measure(opening.names / opening.seconds, "names/s", "higher", peer=f"{opening.names:,} names"),
        "opening_to_reading": Measure(
            opening.reading_seconds / opening.seconds, "x", "higher", goal=0.5, bar=0.2, peer="a bare consumer"
        ),
    }


def _beside(ours: Figures, theirs: Figures, peer: Peer) -> Measure:
    """By what each is of the loop beside it, for they ran at different times."""
    bar = 1.0 if peer.to_be_beaten else None
    return Measure(ours.share / theirs.share, "x", "higher", bar=bar, peer=f"{peer.name}, each by the copy loop")


def _print_table(figures: Mapping[str, Figures], left_out: Mapping[str, str]) -> None:
    guarantees = {peer.name: peer.guarantee for peer in PEERS} | {
        COPY: "none: a crash loses or repeats records",
        VALIDATING: "none, and a bad record ends it",
        PLAIN: OURS,
        FAUST: "the same",
    }
    table = Table(title="requests -> work, one process each")
    for heading in ("", "events/s", "of the copy loop", "CPU µs", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    table.add_column("guarantee")
    for name, each in figures.items():
        rates = (f"{each.rate:,.0f}", f"{each.share:.2f}", f"{each.cpu * 1e6:,.0f}")
        waits = (f"{seconds * 1000:,.0f}" for seconds in (each.latency.p50, each.latency.p99))
        table.add_row(name, *rates, *waits, guarantees[name])
    for name, reason in left_out.items():
        table.add_row(name, *[""] * 5, f"not run: {reason}")
    console.width = max(console.width, _TABLE_WIDTH)
    console.print(table)
    console.print(
        "p50 and p99: from handing a request over to reading its work, at half of the rate beside it, 4,000/s at most"
    )


if __name__ == "__main__":
    sys.exit(main())

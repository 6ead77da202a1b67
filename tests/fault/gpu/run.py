"""fault-gpu: every fault a card can have, in the middle of 100 requests over a real broker, and what came of it.

    python -m tests.fault.gpu.run [--requests N] [--only NAME ...] [--together N]

Exit status 0: everything was as it had to be. 1: the flaws are printed, with the folder that holds their evidence.
"""

import argparse
import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gpu_consumer.models.tiny import make_tiny
from streams.kafka.settings import KafkaSettings
from tests.fault.gpu.cases import Case, make_cases
from tests.fault.gpu.requests import configs, digests
from tests.fault.gpu.trial import EXIT_SECONDS_MAX, RECOVERY_SECONDS_MAX, Trial
from tests.fault.gpu.verdict import Count, Evidence, count, flaws
from tests.fault.world import ROOT, broker

HOME = ROOT / ".kiln" / "fault-gpu"
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 120)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.gpu.run", description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100, help="a run")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these cases alone")
    parser.add_argument("--together", type=int, default=2, help="cases at the same time")
    options = parser.parse_args()
    cases = [case for case in make_cases(options.requests) if not options.only or case.name in options.only]
    if not cases:
        parser.error("no case has that name; there are " + ", ".join(each.name for each in make_cases(20)))
    home = HOME / f"run-{os.getpid()}"
    home.mkdir(parents=True)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # new topics have no leader for a moment
    with broker(home / "broker", console) as bootstrap:
        kafka = KafkaSettings(bootstrap_servers=bootstrap)
        wrong = asyncio.run(run_cases(cases, kafka, home, options.requests, options.together))
    if wrong:
        console.print(f"[red]{wrong} flaws[/red]; evidence in {home}")
        return 1
    shutil.rmtree(home)
    return 0


async def run_cases(cases: Sequence[Case], kafka: KafkaSettings, home: Path, requests: int, together: int) -> int:
    """The number of flaws. Prints each case as it ends, and the table."""
    started = time.monotonic()
    models = home / "models"
    make_tiny(models)
    among = configs(models)
    drawing = asyncio.create_task(digests(models, requests, among))
    gate = asyncio.Semaphore(together)
    table = _table(requests)
    rows: dict[str, list[str]] = {}
    wrong = 0

    async def one(case: Case) -> None:
        nonlocal wrong
        async with gate:
            evidence = await Trial(case, kafka, models, home / case.name, requests).run(among)
        wanted = await drawing
        found = list(flaws(case, evidence, wanted))
        wrong += len(found)
        rows[case.name] = _row(case, evidence, count(case, evidence, wanted), len(found))
        console.print(f"{time.monotonic() - started:5.0f} s  {case.name}: {'as it must be' if not found else ''}")
        for flaw in found:
            console.print(f"         [red]FLAW[/red] {flaw}"[:600])

    await asyncio.gather(*(one(case) for case in cases))
    for case in cases:
        table.add_row(*rows[case.name])
    console.print(table)
    console.print(
        f"{len(cases)} cases, {wrong} flaws, {time.monotonic() - started:.0f} s. equal: SHA-256 as drawn without the "
        f"fault in a bucket of the same size; lower: the result names the lower bucket that memory had left. "
        f"A recovery may take {RECOVERY_SECONDS_MAX:g} s, and giving a card up {EXIT_SECONDS_MAX:g} s."
    )
    return wrong


def _table(requests: int) -> Table:
    table = Table(title=f"fault-gpu, {requests} requests a case")
    for name in ("fault", "the guilty", "others equal", "of them lower", "restarts", "attempts", "recovery s", "s", ""):
        table.add_column(name, justify="left" if name in ("fault", "the guilty") else "right")
    return table


def _row(case: Case, evidence: Evidence, counted: Count, flaws_found: int) -> list[str]:
    recovery = counted.recovery_seconds
    return [
        case.name,
        ", ".join(dict.fromkeys(case.codes.values())) or "-",
        f"{counted.equal + counted.equal_lower}/{counted.due}",
        str(counted.equal_lower or "-"),
        str(counted.restarts or "-"),
        str(counted.attempts_max),
        "-" if recovery is None else f"{recovery:.1f}",
        f"{evidence.seconds:.0f}",
        f"[red]{flaws_found} flaws[/red]" if flaws_found else "ok",
    ]


if __name__ == "__main__":
    sys.exit(main())

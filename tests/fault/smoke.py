"""fault-smoke: the whole pipeline under SIGKILL, freezes and a reset of both groups, then an independent check.

    python -m tests.fault.smoke [--seed N] [--rounds N] [--engine process|instant] [--intake faust|plain]

Exit status 0: no flaw. 1: the first example of each kind of flaw was printed, with the folder that holds the evidence.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import sys
from contextlib import closing

from rich.console import Console

from tests.fault.checks import find_flaws
from tests.fault.children import shared_memory
from tests.fault.facts import summarise, table_of, write_history
from tests.fault.history import Flaw, History, Record, Sent
from tests.fault.leftovers import find_bad_ends, find_confessions, find_leftovers
from tests.fault.plan import Kind, Plan, make_plan
from tests.fault.reader import StuckLog, read_all
from tests.fault.stored import read_store
from tests.fault.storm import Storm, describe
from tests.fault.tail import ResultsTail
from tests.fault.waiting import Deadline, TooLate
from tests.fault.wishes import LIMITS
from tests.fault.world import MODELS, ROOT, SESSION_SECONDS, World, broker, ensure_models, make_world

HOME = ROOT / ".kiln" / "fault"
_PROCESSES = 2  # of each kind
_ROUND_SECONDS = 480.0
_MORE_STEPS = 6

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run the rounds. The first seed is given or drawn, the next ones follow it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.smoke", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="replays the plan of that seed")
    parser.add_argument("--rounds", type=int, default=1, help="rounds, each with the next seed")
    parser.add_argument("--requests", type=int, default=200, help="names; repeats and garbage come on top")
    parser.add_argument("--engine", choices=["process", "instant"], default="process")
    parser.add_argument("--intake", choices=["faust", "plain"], default="faust")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a round without flaws, too")
    options = parser.parse_args()
    # An end by a signal runs the same clean-up as any other.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    HOME.mkdir(parents=True, exist_ok=True)
    home = HOME / f"broker-{os.getpid()}"
    summaries = []
    try:
        with broker(home, console) as bootstrap:
            for seed in range(options.seed, options.seed + options.rounds):
                summaries.append(run_round(seed, bootstrap, options))
                last = summaries[-1] if options.rounds == 1 else {"rounds": summaries}
                (HOME / "summary.json").write_text(json.dumps(last, indent=2) + "\n", encoding="utf-8")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0 if all(summary["ok"] for summary in summaries) else 1


def run_round(seed: int, bootstrap: str, options: argparse.Namespace) -> dict[str, object]:
    """One plan from start to verdict."""
    deadline = Deadline(_ROUND_SECONDS)
    memory_before = shared_memory()
    prefix = f"fault-{seed}-{secrets.token_hex(3)}"
    folder = HOME / prefix
    console.print(f"SEED={seed}  folder {folder}")
    settings = engine_settings(options.engine) | {"KILN_ADMISSION_SERVICE_INTAKE": options.intake}
    world = make_world(folder, bootstrap, prefix=prefix, limits=LIMITS, settings=settings, more_steps=_MORE_STEPS)
    plan = make_plan(seed, requests=options.requests, processes=_PROCESSES, session_seconds=SESSION_SECONDS)
    (folder / "plan.jsonl").write_text(describe(plan), encoding="utf-8")
    children = {(kind, i): world.child(kind, i, {}) for kind in Kind for i in range(_PROCESSES)}
    storm = Storm(world, children, deadline, console.print)
    flaws: list[Flaw] = []
    sent, lags = weather(storm, plan, world, flaws)
    flaws += find_leftovers(world.mark, memory_before)
    history = read_history(world, sent, lags, flaws)
    write_history(history, folder)
    flaws += find_flaws(history)
    flaws += find_bad_ends(storm.deeds, list(children.values()))
    flaws += find_confessions(sorted(folder.glob("*.log")))
    summary = summarise(seed, history, storm.deeds, list(children.values()), flaws, deadline.elapsed)
    (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    console.print(table_of(summary))
    first: dict[str, Flaw] = {}
    for flaw in flaws:
        first.setdefault(flaw.kind, flaw)
    for kind, flaw in first.items():
        count = sum(each.kind == kind for each in flaws)
        console.print(f"[red]FLAW[/red] {kind} ({count}): ", end="")
        console.print(flaw.detail[:600], markup=False)
    if flaws:
        console.print(f"replay with --seed {seed}; evidence in {folder}")
    elif not options.keep:
        shutil.rmtree(folder)
    return summary


def weather(storm: Storm, plan: Plan, world: World, flaws: list[Flaw]) -> tuple[list[Sent], dict[str, int]]:
    """Carry the plan out and let it come to rest. Whatever happens, no process survives this."""
    lags: dict[str, int] = {}
    wanted = {sending.wish.meaning.name for act in plan.acts for sending in act.records} - {None}
    tail = ResultsTail(world.bootstrap, world.catalogue.results, world.catalogue.requests_partitions)
    with closing(tail):
        try:
            storm.start()
            storm.carry_out(plan)
            lags = storm.settle(tail.ended, len(wanted))
            storm.stop()
            lags = {group: max(lag, lags[group]) for group, lag in storm.lags().items()}
        except (TooLate, TimeoutError, RuntimeError) as error:
            flaws.append(Flaw("not_finished", str(error)))
        finally:
            storm.destroy()
    return list(storm.sent()), lags


def read_history(world: World, sent: list[Sent], lags: dict[str, int], flaws: list[Flaw]) -> History:
    """Everything that the run has left in Kafka and in the store."""
    topics = world.catalogue

    def records(*names: str) -> list[Record]:
        try:
            return read_all(world.bootstrap, names)
        except StuckLog as error:
            flaws.append(Flaw("log_stuck", str(error)))
            return []

    return History(
        requests_partitions=topics.requests_partitions,
        limits=LIMITS,
        sent=sent,
        requests=records(topics.requests),
        decisions=records(topics.decisions),
        work=records(*world.work_topics),
        results=records(topics.results),
        dead_letters=records(topics.dead_letters),
        stored=read_store(world.store),
        lags=lags,
        tenants=records(topics.tenants),
    )


def engine_settings(engine: str) -> dict[str, str]:
    """The environment of GPU consumers with this engine. The process engine's tiny models are made here if need be."""
    if engine == "instant":
        return {"KILN_GPU_ENGINE": "instant", "KILN_GPU_PRELOAD": ""}
    ensure_models(MODELS)
    return {"KILN_GPU_ENGINE": "process", "KILN_GPU_DEVICE": "cpu", "KILN_GPU_MODELS_DIR": str(MODELS)}


if __name__ == "__main__":
    sys.exit(main())

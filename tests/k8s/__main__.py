"""The real control plane with our manifests and our pipeline: each pool goes from nothing to four replicas and back.

python -m tests.k8s [--draw FILE]
"""

import argparse
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from tests.fault.children import Child, stop_all
from tests.fault.waiting import Deadline
from tests.fault.world import broker
from tests.golang import ROOT, GoMissing
from tests.k8s.build import Programs, programs
from tests.k8s.loopback import enter_own_network
from tests.k8s.manifests import apply_all, refuse_misspelt
from tests.k8s.plane import plane
from tests.k8s.scenario import Scenario
from tests.k8s.timeline import Timeline, draw
from tests.k8s.world import BY_LAG, BY_SECONDS, NAMESPACE, make_world

_FOLDER = ROOT / ".kiln" / "k8s"
_DEADLINE_SECONDS = 1500  # never a measurement: some two minutes on two quiet cores
_STOP_SECONDS = 40
_TITLES = {
    BY_LAG: "by lag: three Kafka triggers, summed",
    BY_SECONDS: "by GPU-seconds: our external scaler",
}


def main() -> int:
    """The exit status. Skipped with 0, and a word, where the programs cannot be had."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--draw", type=Path, default=_FOLDER / "timeline.svg")
    arguments = options.parse_args()
    try:
        built = programs()
        enter_own_network()
    except (GoMissing, OSError) as missing:
        print(f"skipped: the control plane is not tested here: {missing}")
        return 0
    shutil.rmtree(_FOLDER / "run", ignore_errors=True)
    timelines = run(built, _FOLDER / "run", Deadline(_DEADLINE_SECONDS))
    draw(timelines, arguments.draw)
    print(f"drawn: {arguments.draw}")
    return 0


def run(built: Programs, folder: Path, deadline: Deadline) -> list[Timeline]:
    """Raises TooLate or AssertionError. Whatever was started is stopped."""
    children: list[Child] = []
    scenarios: list[Scenario] = []
    with ExitStack() as stack:
        bootstrap = stack.enter_context(broker(folder / "home", Console()))
        world = make_world(folder, bootstrap)
        control = stack.enter_context(plane(folder / "plane", built, deadline))
        stack.callback(lambda: _stop([*children, *(child for each in scenarios for child in each.children)]))
        control.start(NAMESPACE)
        print(f"the control plane is up after {deadline.elapsed:.0f} s", flush=True)
        children += [world.admission(), world.scaler()]
        for child in children:
            child.start()
        for child in children:
            deadline.wait_for(child.ready, f"{child.name}; see {child.log}", meanwhile=control.check)
        documents = world.documents()
        apply_all(control.api, documents)
        refuse_misspelt(control.api, documents)
        for pool, title in _TITLES.items():
            print(f"\n{title}", flush=True)
            scenarios.append(Scenario(world, control, pool, deadline, title))
            scenarios[-1].run()
    print(f"\nall of it in {deadline.elapsed:.0f} s", flush=True)
    return [each.timeline for each in scenarios]


def _stop(children: list[Child]) -> None:
    stop_all(children, Deadline(_STOP_SECONDS), seconds=_STOP_SECONDS)


if __name__ == "__main__":
    sys.exit(main())

"""`make infra-check`: everything that is rendered is valid. `python -m tests.infra.run`

Exit 0: all was looked at and is well; 1: something was found; 2: nothing was found, and not all was looked at.
"""

import fcntl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from schemas.pools import load_pools
from schemas.topics import Catalogue, TopicSettings
from tests.infra import composition, documented, images, manifests, queries, references, refusals
from tests.infra.outcome import Check, Outcome, outcome_of
from tests.infra.rendered import DECLARED, Rendered, render_all
from tests.infra.tools import WORK

EXIT_FOUND, EXIT_NOT_LOOKED = 1, 2


def checks_of(name: str, rendered: Rendered) -> Iterator[tuple[str, Check]]:
    """Of one declaration. What overlays and the chart make is validated with the rest."""
    pools = load_pools(DECLARED[name])
    made: list[Path] = []

    def overlays() -> Outcome:
        outcome, files = manifests.overlays(rendered, name)
        made.extend(files)
        return outcome

    def charts() -> Outcome:
        outcome, files = manifests.charts(rendered, name)
        made.extend(files)
        return outcome

    yield "kustomize builds", overlays
    yield "the chart renders", charts
    yield "manifests are valid", lambda: manifests.manifests([*rendered.files(), *made], rendered.folder)
    yield (
        "references lead somewhere",
        lambda: references.references(rendered, pools, Catalogue(TopicSettings(), pools)),
    )
    yield "promtool check rules", lambda: queries.checked_rules(rendered.rule_groups(), name)
    yield "metrics exist", lambda: queries.known_queries(rendered.rule_groups(), rendered.dashboards())


def checks() -> Iterator[tuple[str, Check]]:
    for name, rendered in render_all().items():
        yield from ((f"{name}: {what}", check) for what, check in checks_of(name, rendered))
    yield "what docs say in YAML", documented.documented
    yield "promtool test rules", queries.tested_rules
    yield "misspelt pools are refused", refusals.misspelt_pools
    yield "Dockerfiles", images.dockerfiles
    yield "locks of images", images.locks
    yield "contents of images", images.contents
    yield "compose.yaml", composition.composition
    yield "scrape configuration", composition.scrapes


def main() -> int:
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table("check", "looked at", "", "s")
    found: list[str] = []
    skipped: list[str] = []
    for name, check in checks():
        began = time.perf_counter()
        outcome = outcome_of(check)
        seconds = f"{time.perf_counter() - began:.1f}"
        if outcome.skipped is not None:
            skipped.append(f"{name}: not checked: {outcome.skipped}")
            table.add_row(name, "", "[yellow]skipped", seconds)
            continue
        found += [f"{name}: {sentence}" for sentence in outcome.findings]
        table.add_row(
            name, outcome.looked, f"[red]{len(outcome.findings)} found" if outcome.findings else "ok", seconds
        )
    console.print(table)
    for sentence in [*skipped, *found]:
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    if found:
        return EXIT_FOUND
    return EXIT_NOT_LOOKED if skipped else 0


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run would render into the same folder
        sys.exit(main())

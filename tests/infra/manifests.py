"""Every object strictly: Kubernetes' and KEDA's own types and checks, published schemas, no field that nobody reads."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from infra.render.keda import PUSH_KEYS
from tests.infra.outcome import Outcome, counted
from tests.infra.refusals import misspelt
from tests.infra.rendered import Object, Rendered
from tests.infra.replicas import told_apart
from tests.infra.strimzi import definitions
from tests.infra.tools import WORK, ask, findings, keda_folder, kubectl, lines, run

BUILT = WORK / "built"
_KEDAS = ("scaledobjects", "triggerauthentications")


def manifests(files: Sequence[Path], below: Path) -> Outcome:
    """Raises GoMissing."""
    keda = keda_folder()
    crds = [keda / "config" / "crd" / "bases" / f"keda.sh_{kind}.yaml" for kind in _KEDAS]
    said = [option for path in [*crds, *definitions()] for option in ("-crd", path)]
    triggers = keda / "schema" / "generated" / "scalers-schema.json"
    report = ask("manifests", *said, "-triggers", triggers, "-external-keys", ",".join(sorted(PUSH_KEYS)), *files)
    checked = dict(report["checked"])
    known = checked.pop("trigger", 0)
    looked = counted(objects=sum(checked.values()), kinds=len(checked), triggers=known)
    found = findings(report, below)
    return Outcome(looked, found if checked else (*found, f"{below} has no objects"))


def overlays(rendered: Rendered, name: str) -> tuple[Outcome, list[Path]]:
    """Built by kubectl kustomize, and the files of what it made. Raises ToolMissing."""
    made: list[Path] = []
    found: list[str] = []
    BUILT.mkdir(parents=True, exist_ok=True)
    for folder in rendered.overlays():
        where = str(folder.relative_to(rendered.folder))
        done = run(kubectl(), "kustomize", folder)
        if done.code or not done.out.strip():
            found += lines(done.err or "built nothing", of=where)
            continue
        # Kustomize warns of what it will drop one day.
        found += lines(done.err, of=where)
        made.append(BUILT / f"{name}-{folder.name}.yaml")
        made[-1].write_text(done.out, encoding="utf-8")
        found += [f"{where}: {each}" for each in told_apart(yaml.safe_load_all(done.out))]
    if not rendered.overlays():
        found.append(f"{rendered.folder} has no kustomization.yaml")
    return Outcome(counted(overlays=len(made)), tuple(found)), made


def charts(rendered: Rendered, name: str) -> tuple[Outcome, list[Path]]:
    """Rendered by Helm's own engine with the chart's own values, and the files of what it made. Raises GoMissing."""
    made: list[Path] = []
    found: list[str] = []
    BUILT.mkdir(parents=True, exist_ok=True)
    for chart in rendered.charts():
        report = ask("chart", chart)
        found += [*findings(report, rendered.folder), *_passed_over(chart), *_fewer_replicas(chart)]
        for number, (path, text) in enumerate(sorted(report.get("files", {}).items())):
            made.append(BUILT / f"{name}-chart-{number}-{Path(path).stem}.yaml")
            made[-1].write_text(text, encoding="utf-8")
    return Outcome(counted(charts=len(rendered.charts()), templates=len(made)), tuple(found)), made


def _passed_over(chart: Path) -> Iterator[str]:
    """Values that are misspelt, one at a time, and taken all the same."""
    values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    for field, broken in misspelt(values):
        if not _given(chart, broken)["findings"]:
            yield f"{chart.name}: the value {field}x is passed over in silence"


def _fewer_replicas(chart: Path) -> Iterator[str]:
    """The chart with other values than its own, and with some that fit each other in no way."""
    pools = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))["pools"]
    fewer = {name: {"replicas_min": 1, "replicas_max": own["replicas_max"] - 1} for name, own in pools.items()}
    report = _given(chart, {"pools": fewer})
    yield from findings(report, chart)
    yield from told_apart(each for text in report.get("files", {}).values() for each in yaml.safe_load_all(text))
    for name, own in pools.items():
        crossed = {"replicas_min": own["replicas_max"], "replicas_max": own["replicas_max"] - 1}
        if not _given(chart, {"pools": {name: crossed}})["findings"]:
            yield f"{chart.name}: pools.{name}.replicas_min above replicas_max is taken"


def _given(chart: Path, values: Object) -> Object:
    file = BUILT / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return ask("chart", "-values", file, chart)

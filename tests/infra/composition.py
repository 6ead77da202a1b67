"""compose.yaml: loaded as Docker Compose does it, every variable read by somebody, what it mounts and builds there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.golang import ROOT
from tests.infra.images import stages
from tests.infra.outcome import Outcome, counted
from tests.infra.references import known_settings, unknown_settings
from tests.infra.tools import WORK, ask, findings, lines, promtool, run

COMPOSE = ROOT / "compose.yaml"
SCRAPES = ROOT / "infra" / "compose" / "prometheus.yml"

Service = dict[str, Any]


def composition(file: Path = COMPOSE) -> Outcome:
    """Raises GoMissing."""
    report = ask("compose", file)
    found = list(findings(report, file.parent))
    if found:
        return Outcome(counted(services=0), tuple(found))
    project: dict[str, Any] = json.loads(report["files"][str(file)])
    known = known_settings()
    volumes: dict[str, Any] = project.get("volumes", {})
    for name, service in project["services"].items():
        found += [f"{file.name}, service {name}: {problem}" for problem in _problems(service, known, set(volumes))]
    return Outcome(counted(services=len(project["services"]), volumes=len(volumes)), tuple(found))


def _problems(service: Service, known: frozenset[str], volumes: set[str]) -> Iterator[str]:
    build = service.get("build")
    if build is not None:
        yield from unknown_settings(sorted(service.get("environment") or {}), known)
        yield from _built(build)
    elif ":" not in service["image"] or service["image"].endswith(":latest"):
        yield f"the image {service['image']} has no version"
    for mount in service.get("volumes", ()):
        source = Path(mount.get("source", ""))
        if mount["type"] == "bind" and not source.exists() and ".kiln" not in source.parts:
            yield f"{source} is mounted and not there"
        if mount["type"] == "volume" and mount["source"] not in volumes:
            yield f"the volume {mount['source']} is not declared"
    for port in service.get("ports", ()):
        if port.get("host_ip") != "127.0.0.1":
            yield f"port {port['target']} is open to the network; publish it on 127.0.0.1"
    if service.get("privileged"):
        yield "it is privileged"


def _built(build: dict[str, Any]) -> Iterator[str]:
    dockerfile = Path(build["context"]) / build["dockerfile"]
    if not dockerfile.exists():
        yield f"{build['dockerfile']} is not there"
    elif "target" in build and build["target"] not in {stage.name for stage in stages(dockerfile.read_text())}:
        yield f"{build['dockerfile']} has no target {build['target']}"


def scrapes(file: Path = SCRAPES) -> Outcome:
    """promtool check config, and every target is a service of compose.yaml. Raises ToolMissing."""
    # The rules are checked by themselves: here they lie where only the container has them.
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    document.pop("rule_files", None)
    copy = WORK / "scrapes.yml"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(yaml.safe_dump(document), encoding="utf-8")
    done = run(promtool(), "check", "config", "--lint=all", "--lint-fatal", copy)
    found = list(lines(done.said, of=file.name)) if done.code else []
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    hosts = [
        host.partition(":")[0]
        for job in document["scrape_configs"]
        for group in [*job.get("static_configs", ()), *job.get("dns_sd_configs", ())]
        for host in [*group.get("targets", ()), *group.get("names", ())]
    ]
    found += [f"{file.name}: compose.yaml has no service {host}" for host in hosts if host not in services]
    return Outcome(counted(jobs=len(document["scrape_configs"]), targets=len(hosts)), tuple(found))

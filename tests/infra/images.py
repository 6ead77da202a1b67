"""Dockerfiles: linted, no root, a health check, nothing unlocked, no secret; and what is locked is enough to run."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

from tests.golang import ROOT
from tests.infra.outcome import Outcome, counted
from tests.infra.tools import WORK, ToolMissing, run

IMAGES = ROOT / "infra" / "images"
LOCK = ROOT / "infra" / "requirements.lock"
_SECRET = re.compile(r"(PASSWORD|SECRET|TOKEN|ACCESS_KEY)\w*=", re.IGNORECASE)
_ROOTS = {"root", "0"}
_FROM = re.compile(r"^(?P<image>\S+)(?:\s+AS\s+(?P<name>\S+))?$", re.IGNORECASE)
_COPY_FROM = re.compile(r"--from=(\S+)")
# What each image is for, and one command of it that needs what only it has.
_COMMANDS = {
    "services": (("admission", "gate", "scaler", "topics", "infra", "submit"), ("infra", "render", "--out")),
    "gpu": (("gpu-consumer", "models"), ("models", "make-tiny")),
}


@dataclass
class Stage:
    """What a FROM begins: `base` is an image or an earlier stage."""

    base: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str | None:
        return next((said for what, said in reversed(self.instructions) if what == instruction), None)


def stages(text: str) -> list[Stage]:
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    found: list[Stage] = []
    for line in filter(None, map(str.strip, joined.splitlines())):
        what, _, said = line.partition(" ")
        said = " ".join(said.split())
        if what.upper() == "FROM":
            named = _FROM.match(said)
            assert named is not None, line
            found.append(Stage(named["image"], named["name"] or str(len(found))))
        elif found:
            found[-1].instructions.append((what.upper(), said))
    return found


def dockerfiles(files: Sequence[Path] | None = None) -> Outcome:
    files = sorted(IMAGES.glob("*.Dockerfile")) if files is None else files
    found: list[str] = []
    targets = 0
    for path in files:
        found += _linted(path)
        made = stages(path.read_text(encoding="utf-8"))
        used = {stage.base for stage in made} | {
            name for stage in made for _, said in stage.instructions for name in _COPY_FROM.findall(said)
        }
        targets += sum(stage.name not in used for stage in made)
        found += [
            f"{path.name}: {problem}" for stage in made for problem in _judged(stage, made, stage.name not in used)
        ]
    return Outcome(counted(dockerfiles=len(files), targets=targets), tuple(found))


def _linted(path: Path) -> Iterator[str]:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = run(hadolint, "--no-fail", "--format", "json", path)
    for each in json.loads(done.out):
        yield f"{path.name}, line {each['line']}: {each['code']} {each['message']}"


def _judged(stage: Stage, made: Sequence[Stage], runs: bool) -> Iterator[str]:
    chain = [stage]
    while (base := next((each for each in made if each.name == chain[-1].base), None)) is not None:
        chain.append(base)
    where = f"stage {stage.name}"
    for what, said in stage.instructions:
        if what in {"ENV", "ARG"} and _SECRET.search(said):
            yield f"{where}: {what} {said} would stand in the image for whoever has it"
        if what == "ADD":
            yield f"{where}: ADD fetches and unpacks unasked; COPY does not"
        if what == "RUN" and "pip install" in said and "--require-hashes" not in said and "--no-index" not in said:
            yield f"{where}: it installs what is not locked: {said}"
        if what == "COPY" and "--from=" not in said and stage.base != "scratch":
            yield from (f"{where}: {problem}" for problem in _copied(said))
    if not runs:
        return
    user = next((said for said in (each.last("USER") for each in chain) if said is not None), "root")
    if user.split(":")[0] in _ROOTS:
        yield f"{where}: it runs as root; name a user"
    if chain[-1].base != "scratch" and not any(each.last("HEALTHCHECK") for each in chain):
        yield f"{where}: it has no HEALTHCHECK"


def _copied(said: str) -> Iterator[str]:
    """What is not there, and what .dockerignore keeps from the builder: it lists what may be sent."""
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for source in [part for part in said.split() if not part.startswith("--")][:-1]:
        if not (ROOT / source).exists():
            yield f"COPY of {source}, which is not there"
        elif source.split("/")[0] not in sent:
            yield f"COPY of {source}, which .dockerignore keeps back"


def locks() -> Outcome:
    """What an image installs is the same to the byte as what is tested: its lock is a part of requirements.lock."""
    everything = _locked(LOCK)
    found = []
    number = 0
    for path in sorted(IMAGES.glob("*.lock")):
        part = _locked(path)
        number += len(part)
        found += [
            f"{path.name}: {each} is not as in {LOCK.name}; run make lock" for each in _differing(part, everything)
        ]
        wanted = path.with_suffix(".in").read_text(encoding="utf-8").splitlines()
        names = {Requirement(line).name for line in part}
        missing = [line for line in wanted if line and line[0] != "#" and line not in names]
        found += [f"{path.name} lacks {name}; run make lock" for name in missing]
    return Outcome(counted(packages=number), tuple(found))


def _differing(part: dict[str, frozenset[str]], everything: dict[str, frozenset[str]]) -> Iterator[str]:
    for line, hashes in part.items():
        if not hashes or not hashes <= everything.get(line, frozenset()):
            yield line


def _locked(path: Path) -> dict[str, frozenset[str]]:
    """Requirement line -> its hashes."""
    found: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip().removesuffix("\\").strip()
        if text.startswith("--hash="):
            current.add(text)
        elif text and text[0] != "#":
            current = found.setdefault(text, set())
    return {line: frozenset(hashes) for line, hashes in found.items()}


def contents() -> Outcome:
    """The two images' Python as the Dockerfiles make it, without a container: locked packages, our wheel beside them,
    and the commands that the image is for. Raises ToolMissing where packages cannot be had."""
    environments = WORK / "images"
    environments.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=environments, prefix="run-") as name:
        found = tuple(_contents(Path(sys.executable).parent, environments, Path(name)))
    number = sum(len(commands) for commands, _ in _COMMANDS.values())
    return Outcome(counted(images=len(_COMMANDS), commands=number), found)


def _contents(tools: Path, environments: Path, folder: Path) -> Iterator[str]:
    built = run(tools / "hatchling", "build", "-t", "wheel", "-d", folder)
    if built.code:
        yield f"our wheel cannot be built: {built.said[-300:]}"
        return
    (wheel,) = folder.glob("*.whl")
    for name, (commands, trial) in _COMMANDS.items():
        own, out = folder / f"{name}-own", folder / f"{name}-out"
        _install(tools / "uv", environments / name, own, IMAGES / f"{name}.lock", wheel)
        kiln = ("env", f"PYTHONPATH={own}", "COLUMNS=200", own / "bin" / "kiln")
        there = run(*kiln, "--help").out
        broken = [each for each in commands if not re.search(rf"^\W+{each} +(?!Broken)\w", there, re.MULTILINE)]
        yield from (f"the image of {name}.lock cannot run kiln {command}" for command in broken)
        tried = run(*kiln, *trial, out)
        if tried.code or not out.exists():
            yield f"in the image of {name}.lock kiln {' '.join(trial)} fails: {tried.said[-300:]}"


def _install(uv: Path, environment: Path, own: Path, lock: Path, wheel: Path) -> None:
    """What is there already stays. Raises ToolMissing where the packages cannot be had."""
    python = environment / "bin" / "python"
    for command in (
        ("venv", "--allow-existing", "--python", sys.executable, environment),
        ("pip", "sync", "--python", python, "--require-hashes", lock),
        ("pip", "install", "--python", python, "--no-index", "--no-deps", "--target", own, wheel),
    ):
        done = run(uv, "--quiet", *command)
        if done.code:
            raise ToolMissing(f"the packages of {lock.name} cannot be had: {done.err.strip()[-300:]}")

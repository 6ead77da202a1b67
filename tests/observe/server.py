"""A Prometheus of our own: on the loopback, its data in a folder of the run, stopped by its handle."""

import json
import math
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.ports import free_port
from tests.prometheus import Tools

SCRAPE_SECONDS = 1
RATE = "10s"  # what Grafana would choose for so short a run, and a little more
_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_ANSWER_SECONDS = 30.0


class NoAnswer(Exception):
    """Prometheus refused, or did not answer."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series of an answer: its labels, and seconds since 1970 with their values."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]

    @property
    def told(self) -> bool:
        """Whether any of it is a number."""
        return any(math.isfinite(value) for _, value in self.points)


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def range(self, expr: str, began: float, ended: float) -> list[Line]:
        """Of a query with `RATE` put in, a point a second. Raises NoAnswer."""
        answer = self._ask("/api/v1/query_range", query=expr, start=began, end=ended, step=SCRAPE_SECONDS)
        return [Line(each["metric"], [(at, float(value)) for at, value in each["values"]]) for each in answer["result"]]

    def rules(self) -> list[dict[str, Any]]:
        """Every rule as it was worked out last."""
        groups: list[dict[str, Any]] = self._ask("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("/api/v1/targets")["activeTargets"]
        return found

    def is_ready(self) -> bool:
        return is_well(f"{self._url}/-/ready")

    def _ask(self, path: str, **parameters: Any) -> Any:
        try:
            with urllib.request.urlopen(
                f"{self._url}{path}?{urllib.parse.urlencode(parameters)}", timeout=_ANSWER_SECONDS
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise NoAnswer(error.read().decode(errors="replace")) from error
        except (urllib.error.URLError, OSError) as error:
            raise NoAnswer(str(error)) from error


def is_well(url: str) -> bool:
    """Whether it answers, and by 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def prometheus(
    tools: Tools, folder: Path, targets: Mapping[str, int], groups: Sequence[Mapping[str, Any]]
) -> Iterator[Prometheus]:
    """Scrape `targets`, a service's name -> its health port, and work the rules out as often. Raises TimeoutError where
    it does not start; its log is in `folder`."""
    folder.mkdir(parents=True)
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}), encoding="utf-8")
    config = {
        "global": {
            "scrape_interval": f"{SCRAPE_SECONDS}s",
            "scrape_timeout": f"{SCRAPE_SECONDS}s",
            "evaluation_interval": f"{SCRAPE_SECONDS}s",
        },
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {
                "job_name": "kiln",
                "honor_labels": True,
                "static_configs": [
                    {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}} for name, port in targets.items()
                ],
            }
        ],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    port = free_port()
    command = [
        str(tools.prometheus),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=1h",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        server = Prometheus(port)
        deadline = time.monotonic() + _READY_SECONDS
        while not server.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"Prometheus does not start; see {folder / 'prometheus.log'}")
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

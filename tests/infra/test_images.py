"""What is wrong with a Dockerfile, a lock or compose.yaml is found."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from infra.images.healthcheck import wrong
from tests.golang import GoMissing
from tests.infra import images
from tests.infra.composition import COMPOSE, SCRAPES, composition, scrapes
from tests.infra.images import IMAGES, contents, dockerfiles, locks
from tests.infra.tools import ToolMissing

SERVICES = IMAGES / "services.Dockerfile"

DOCKERFILES = {
    "root": ("USER 10001:10001\n", "", "it runs as root"),
    "root by number": ("USER 10001:10001", "USER 0", "it runs as root"),
    "no health check": ("HEALTHCHECK ", "LABEL a=b \\\n    ", "it has no HEALTHCHECK"),
    "a secret": ("ENV PATH=", "ENV STORE_SECRET_KEY=abc PATH=", "would stand in the image"),
    "what is not locked": ("--require-hashes -r services.lock", "faust-streaming", "what is not locked"),
    "a base without a version": ("FROM python:3.11-slim-bookworm AS services", "FROM python AS services", "DL3006"),
    "what hadolint tells": ("WORKDIR /build", "WORKDIR build", "DL3000"),
    "a file that is not there": ("COPY schemas schemas", "COPY schema schema", "COPY of schema, which is not there"),
    "a file that is kept back": ("COPY schemas schemas", "COPY tests tests", ".dockerignore keeps back"),
}


@pytest.mark.parametrize("what", DOCKERFILES)
def test_a_bad_dockerfile_is_found(what: str, tmp_path: Path) -> None:
    before, after, wanted = DOCKERFILES[what]
    text = SERVICES.read_text()
    assert before in text
    path = tmp_path / "services.Dockerfile"
    path.write_text(text.replace(before, after))
    found = dockerfiles([path]).findings
    assert any(wanted in sentence for sentence in found), found


def test_a_package_that_is_locked_otherwise_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (IMAGES / "build.lock").read_text().splitlines()
    lines[0] = "hatchling==0.0.1 \\"
    (tmp_path / "build.lock").write_text("\n".join(lines))
    (tmp_path / "build.in").write_text("# what builds\nhatchling\nwheel\n")
    monkeypatch.setattr(images, "IMAGES", tmp_path)
    found = locks().findings
    assert any("hatchling==0.0.1" in sentence for sentence in found), found
    assert "build.lock lacks wheel; run make lock" in found


def test_an_image_that_lacks_what_a_command_needs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"services": (("admission", "broker"), ("demo", "--folder"))}  # the broker's Java runtime is not in it
    monkeypatch.setattr(images, "_COMMANDS", wanted)
    try:
        found = contents().findings
    except ToolMissing as missing:
        pytest.skip(str(missing))
    assert "the image of services.lock cannot run kiln broker" in found
    assert "kiln demo --folder fails: kiln: demo is installed as" in found[-1]


COMPOSITIONS = {
    "a misspelt field": ("    restart: on-failure", "    restrat: on-failure", "restrat"),
    "a misspelt variable": ("KILN_GPU_HEALTH_HOST", "KILN_GPU_HEALT_HOST", "KILN_GPU_HEALT_HOST"),
    "a service that is not there": ("kafka: {condition", "kafaka: {condition", "kafaka"),
    "an image without a version": ("apache/kafka:4.3.1", "apache/kafka", "no version"),
    "a file that is not there": ("./infra/tenants.yaml", "./infra/tenant.yaml", "not there"),
    "a port for everybody": ('"127.0.0.1:9090:9090"', '"9090:9090"', "open to the network"),
    "a target that is not there": ("target: cpu", "target: cpus", "no target cpus"),
    "a Dockerfile that is not there": ("infra/images/store.", "infra/images/stor.", "is not there"),
}


@pytest.mark.parametrize("what", COMPOSITIONS)
def test_a_bad_composition_is_found(what: str, tmp_path: Path) -> None:
    before, after, wanted = COMPOSITIONS[what]
    text = COMPOSE.read_text()
    assert before in text
    # What it names by its own folder lies in the repository.
    text = text.replace(before, after).replace("./infra", f"{COMPOSE.parent}/infra")
    path = tmp_path / "compose.yaml"
    path.write_text(text.replace("context: .", f"context: {COMPOSE.parent}"))
    try:
        found = composition(path).findings
    except GoMissing as missing:
        pytest.skip(str(missing))
    assert any(wanted in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("honor_labels", "honour_labels", "honour_labels"),
        ("scrape_interval: 5s", "scrape_interval: often", "duration"),
        ("[admission:8081]", "[admision:8081]", "no service admision"),
    ],
)
def test_a_bad_scrape_configuration_is_found(before: str, after: str, wanted: str, tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yml"
    path.write_text(SCRAPES.read_text().replace(before, after))
    try:
        found = scrapes(path).findings
    except ToolMissing as missing:
        pytest.skip(str(missing))
    assert any(wanted in sentence for sentence in found), found


class _Page(BaseHTTPRequestHandler):
    status = 503

    def do_GET(self) -> None:
        self.send_response(_Page.status)
        self.end_headers()
        self.wfile.write(b"the loop is stuck\n")

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_container_is_well_where_its_health_page_says_so() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Page)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        assert wrong(server.server_port) == "the loop is stuck"
        _Page.status = 200
        assert wrong(server.server_port) is None
    finally:
        server.shutdown()
        server.server_close()
    assert "does not answer" in str(wrong(server.server_port))

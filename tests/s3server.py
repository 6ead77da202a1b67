"""A real S3 server for tests: versitygw, built once by `go install` into the cache, on loopback, in a directory.

    python -m tests.s3server        builds it, so that no test has to wait for that

A conftest imports the fixtures: s3_server (one a session), s3_env (the environment of a client), s3_store_url (a fresh
prefix). With them StoreSettings(), in this process and in its children, speaks of the server.
"""

import fcntl
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.ports import free_port

VERSION = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
BUCKET = "kiln-tests"
_ACCESS, _SECRET, _REGION = "kiln", "kiln-tests-only", "us-east-1"
_BUILD_SECONDS_MAX = 900  # two minutes on two quiet cores
_READY_SECONDS_MAX = 60


class ServerMissing(Exception):
    """The server cannot be had here; the sentence says why."""


def server_binary() -> Path:
    """The server's program, built where it is not in the cache yet. Raises ServerMissing."""
    cache = Path(os.environ.get("KILN_CACHE") or Path.home() / ".cache" / "promptkiln") / "bin"
    binary = cache / f"versitygw-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{binary.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be building it
        if not binary.exists():
            _build(binary)
    return binary


def _build(binary: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise ServerMissing("the S3 tests need Go to build their server; install Go 1.24 or newer (https://go.dev/dl)")
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        built = subprocess.run(
            [go, "install", "-p", "2", MODULE],
            env=os.environ | {"GOBIN": folder, "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS_MAX,
            check=False,
        )
        if built.returncode:
            raise ServerMissing(f"`go install {MODULE}` failed: {built.stderr[-600:]}")
        (Path(folder) / "versitygw").replace(binary)


class S3Server:
    """One server over one directory. It can be killed and started again on the same port with the same objects."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self._objects = folder / "objects"
        self._iam = folder / "iam"
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.ready_seconds = 0.0  # of the last start
        for directory in (self._objects, self._iam):
            directory.mkdir(parents=True)

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client process needs, and nothing of the developer's own account."""
        return {
            "AWS_ACCESS_KEY_ID": _ACCESS,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "KILN_STORE_ENDPOINT_URL": self.endpoint_url,
            "KILN_STORE_REGION": _REGION,
            "KILN_STORE_ADDRESSING_STYLE": "path",
            "NO_PROXY": "127.0.0.1",
        }

    def start(self) -> Self:
        """Returns when the server answers."""
        for attempts_left in (2, 1, 0):
            port = self.port or free_port()
            if self._answers(port):
                self.port = port
                return self
            assert attempts_left, f"the S3 server did not start: {self._log.read_text()[-600:]}"
        raise AssertionError

    def kill(self) -> None:
        """SIGKILL, as an outage does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()

    def make_bucket(self, name: str) -> None:
        import boto3
        from botocore.config import Config

        session = boto3.session.Session(_ACCESS, _SECRET, region_name=_REGION)
        config = Config(s3={"addressing_style": "path"}, proxies={})
        session.client("s3", endpoint_url=self.endpoint_url, config=config).create_bucket(Bucket=name)

    def _answers(self, port: int) -> bool:
        """Start the process; False where it ended by itself, because the port was taken meanwhile."""
        started = time.monotonic()
        options = ["--port", f"127.0.0.1:{port}", "--health", "/health", "--keep-alive", "--quiet"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary, *options, "--iam-dir", self._iam, "posix", self._objects],
                env=os.environ | {"ROOT_ACCESS_KEY": _ACCESS, "ROOT_SECRET_KEY": _SECRET},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while time.monotonic() - started < _READY_SECONDS_MAX:
            if self._process.poll() is not None:
                return False
            try:
                opener.open(f"http://127.0.0.1:{port}/health", timeout=5).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
            else:
                self.ready_seconds = time.monotonic() - started
                return True
        self.kill()
        return False


def new_server(folder: Path) -> S3Server:
    """A started server with the bucket. Skips the test where there is no Go, and fails it in CI."""
    try:
        binary = server_binary()
    except ServerMissing as missing:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    server = S3Server(binary, folder).start()
    server.make_bucket(BUCKET)
    return server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = new_server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def s3_env(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a client, set in this process and so in its children too; also returned."""
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.environment


@pytest.fixture
def s3_store_url(s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix nobody else uses, set as KILN_STORE_URL."""
    assert s3_env
    url = f"s3://{BUCKET}/{secrets.token_hex(8)}"
    monkeypatch.setenv("KILN_STORE_URL", url)
    return url


if __name__ == "__main__":
    try:
        print(server_binary())
    except ServerMissing as missing:
        sys.exit(str(missing))

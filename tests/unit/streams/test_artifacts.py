"""What results name is fetched as GPU consumers store it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from schemas.errors import CommandError
from schemas.result import Artifact
from streams.artifacts import fetch, read, save

PICTURE = b"a picture"


def artifact(uri: str, data: bytes = PICTURE) -> Artifact:
    return Artifact(
        uri=uri, sha256=sha256(data).hexdigest(), bytes=len(data), content_type="image/png", width=8, height=8, seed=1
    )


class _Store(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/pictures/prod/a.png"
        body = PICTURE if found else b"<Error><Code>NoSuchKey</Code><Message>There is none</Message></Error>"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def another_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Store) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An S3 server that is not Amazon's, declared as for a GPU consumer."""
    with another_server() as url:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1",
            "KILN_STORE_ENDPOINT_URL": url,
            "KILN_STORE_REGION": "us-east-1",
            "KILN_STORE_ADDRESSING_STYLE": "path",
        }.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.usefixtures("s3")
def test_another_server_than_amazons_is_asked_where_one_is_declared(tmp_path: Path) -> None:
    assert fetch(artifact("s3://pictures/prod/a.png")) == PICTURE
    assert save(artifact("s3://pictures/prod/a.png"), tmp_path, "job-0").read_bytes() == PICTURE
    with pytest.raises(CommandError, match="There is none; look there whether it was removed"):
        read("s3://pictures/prod/b.png")


def test_a_server_that_cannot_be_reached_is_a_sentence_with_its_settings(
    s3: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILN_STORE_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(CommandError, match=r"cannot be fetched: .*; set KILN_STORE_ENDPOINT_URL"):
        read("s3://pictures/prod/a.png")


def test_a_setting_that_is_wrong_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILN_STORE_ENDPOINT_URL", "minio:9000")
    with pytest.raises(CommandError, match="KILN_STORE_ENDPOINT_URL: "):
        read("s3://pictures/prod/a.png")


def test_other_bytes_than_the_result_names_are_refused(tmp_path: Path) -> None:
    there = tmp_path / "a b.png"
    there.write_bytes(PICTURE)
    assert fetch(artifact(there.as_uri())) == PICTURE
    with pytest.raises(CommandError, match="differs from its result"):
        fetch(artifact(there.as_uri(), b"another"))

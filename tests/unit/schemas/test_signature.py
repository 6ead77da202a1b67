"""What is signed, in which form, and what a file of a key may hold."""

import hashlib
import hmac
from pathlib import Path

import pytest

from schemas.errors import CatalogueError
from schemas.signature import SECRET_BYTES_MAX, Signature, SigningKey, parse_signature, read_key

KEY = SigningKey("2030-01", b"0123456789abcdef")


def test_a_header_is_what_another_language_would_make() -> None:
    code = hmac.new(b"0123456789abcdef", b'promptkiln v1\nkiln\n2030-01\n1800000000000\n{"a":1}', hashlib.sha256)
    assert KEY.sign(b'{"a":1}', "kiln", 1_800_000_000_000) == f"v1 2030-01 1800000000000 {code.hexdigest()}".encode()


def test_a_signature_matches_its_value_deployment_key_and_time_and_nothing_else() -> None:
    signature = parse_signature(KEY.sign(b"value", "kiln", 1000))
    assert signature is not None
    assert signature.matches(KEY.secret, "kiln", b"value")
    assert not signature.matches(KEY.secret, "kiln", b"Value")
    assert not signature.matches(KEY.secret, "kiln2", b"value")
    assert not signature.matches(b"another secret of it", "kiln", b"value")
    for other in (
        Signature("2030-02", signature.at_ms, signature.code),
        Signature("2030-01", 1001, signature.code),
        Signature("2030-01", 1000, bytes(32)),
    ):
        assert not other.matches(KEY.secret, "kiln", b"value")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"v1",
        b"v2 k 1 " + b"0" * 64,
        b"v1 k 1 " + b"0" * 63,
        b"v1 k 1 " + b"0" * 65,
        b"v1 k 1 " + b"A" * 64,
        b"v1 k 1 " + b"0" * 64 + b"\n",
        b"v1  1 " + b"0" * 64,
        b"v1 a/b 1 " + b"0" * 64,
        b"v1 k -1 " + b"0" * 64,
        b"v1 k 1.5 " + b"0" * 64,
        b"v1 k " + b"9" * 16 + b" " + b"0" * 64,
        b"v1 k \xd9\xa1 " + b"0" * 64,
        b"v1 \xff 1 " + b"0" * 64,
    ],
)
def test_a_header_of_another_form_is_no_signature(header: bytes) -> None:
    assert parse_signature(header) is None


def test_a_secret_is_not_shown() -> None:
    assert "0123" not in repr(KEY)


def test_a_key_is_read_without_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "2030-01"
    for text in (b"0123456789abcdef", b"0123456789abcdef\n", b"0123456789abcdef\r\n"):
        path.write_bytes(text)
        assert read_key(path) == KEY


@pytest.mark.parametrize("size", [0, 15, SECRET_BYTES_MAX + 1])
def test_a_key_that_can_be_guessed_or_is_none_is_refused_without_telling_it(tmp_path: Path, size: int) -> None:
    path = tmp_path / "k"
    path.write_bytes(b"s" * size)
    with pytest.raises(CatalogueError, match="openssl rand") as refused:
        read_key(path)
    assert "sss" not in str(refused.value)


def test_a_key_that_is_not_there_or_has_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="cannot be read: No such file"):
        read_key(tmp_path / "k")
    with pytest.raises(CatalogueError, match="cannot be read: Is a directory"):
        read_key(tmp_path)
    with pytest.raises(CatalogueError, match="no name of a signing key"):
        read_key(tmp_path / "a key")

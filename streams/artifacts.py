"""Fetching a result's artifacts, and proof that they are what the result says."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from schemas.codec import sha256_hex
from schemas.errors import CommandError, told
from schemas.result import Artifact
from schemas.settings import read_settings
from streams.s3 import S3Settings, s3_client

_AS_CONSUMERS = "set KILN_STORE_ENDPOINT_URL, KILN_STORE_REGION and the credentials as the GPU consumers have them"


def fetch(artifact: Artifact) -> bytes:
    """The artifact's bytes, verified against its SHA-256. Blocks. An S3 server is reached as GPU consumers do.

    Raises CommandError where it cannot be fetched or differs.
    """
    data = read(artifact.uri)
    if sha256_hex(data) != artifact.sha256:
        raise CommandError(f"{artifact.uri} differs from its result: its SHA-256 is not {artifact.sha256}")
    return data


def read(uri: str) -> bytes:
    """What lies there, whatever it is. Blocks. Raises CommandError where it cannot be fetched."""
    parts = urlsplit(uri)
    try:
        return Path(unquote(parts.path)).read_bytes() if parts.scheme == "file" else _fetch_s3(parts.netloc, parts.path)
    except OSError as error:
        raise CommandError(
            f"{uri} cannot be read: {told(error)}; mount the store as the GPU consumers have it"
        ) from error


def _fetch_s3(bucket: str, path: str) -> bytes:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        body = s3_client(read_settings(S3Settings)).get_object(Bucket=bucket, Key=unquote(path.lstrip("/")))["Body"]
        data: bytes = body.read()
    except (BotoCoreError, ClientError) as error:
        code = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None
        cure = "look there whether it was removed" if code == "NoSuchKey" else _AS_CONSUMERS
        raise CommandError(f"s3://{bucket}{path} cannot be fetched: {' '.join(str(error).split())}; {cure}") from error
    return data


def save(artifact: Artifact, folder: Path, stem: str) -> Path:
    """Fetch and write the artifact into an existing folder, as `stem` with its own extension. Returns the path."""
    path = folder / f"{stem}{Path(urlsplit(artifact.uri).path).suffix}"
    data = fetch(artifact)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {told(error)}; name another folder") from error
    return path

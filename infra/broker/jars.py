"""The broker's jars: pinned in jars.lock, fetched once into a cache, verified before each start.

A jar is downloaded beside its place under another name, verified, and renamed: what has its final name was whole
when it got it. An interrupted fetch goes on with the first jar that is missing.
"""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from maven_artifact import Artifact, Downloader
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from infra.broker.errors import JarError
from infra.broker.settings import BrokerSettings

LOCK = Path(__file__).with_name("jars.lock")
_CHUNK = 1 << 16
_SHA256 = re.compile(r"[0-9a-f]{64}$")
_ABANDONED_SECONDS = 3600.0  # a partial file older than this belongs to a fetch that was killed


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock: Maven coordinates group:artifact:version, SHA-256 in hex, size in bytes."""

    coordinates: str
    sha256: str
    size: int

    @property
    def filename(self) -> str:
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"


Source = Callable[[Jar], Iterator[bytes]]
"""Yields a jar's bytes from somewhere; raises OSError where it cannot."""


def read_lock(path: Path = LOCK) -> tuple[Jar, ...]:
    """The pinned jars in the lock's order. Raises JarError that names the line it cannot read."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return tuple(_read_line(path, number, line) for number, line in lines if line.strip() and line[0] != "#")


def _read_line(path: Path, number: int, line: str) -> Jar:
    match line.split():
        case [coordinates, sha256, size] if coordinates.count(":") == 2 and _SHA256.match(sha256) and size.isdecimal():
            return Jar(coordinates, sha256, int(size))
        case _:
            raise JarError(f"{path.name}, line {number}: expected group:artifact:version SHA-256 bytes.")


def ensure_jars(settings: BrokerSettings, console: Console, jars: Sequence[Jar] | None = None) -> list[Path]:
    """Every pinned jar on disk and verified, fetched where it was missing or damaged. Blocks; needs the network
    only for what is missing. Raises JarError."""
    jars = read_lock() if jars is None else jars
    directory = settings.jars_directory
    missing = [jar for jar in jars if not is_intact(directory / jar.filename, jar)]
    if missing:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JarError(
                f"Cannot create the cache {directory} ({error}); set KILN_CACHE to another folder."
            ) from error
        _sweep(directory)
        _fetch_all(missing, directory, maven(settings), settings, console)
    return [directory / jar.filename for jar in jars]


def is_intact(path: Path, jar: Jar) -> bool:
    try:
        if path.stat().st_size != jar.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except FileNotFoundError:
        return False


def maven(settings: BrokerSettings) -> Source:
    """Maven Central, or the mirror of the settings."""
    downloader = Downloader(base=settings.maven_mirror) if settings.maven_mirror else Downloader()

    def read(jar: Jar) -> Iterator[bytes]:
        group, artifact, version = jar.coordinates.split(":")
        url = downloader.resolver.uri_for_artifact(Artifact(group, artifact, version))
        timeouts = (settings.download_stall_seconds, settings.download_stall_seconds)
        with downloader.requestor.request(url, None, stream=True, timeout=timeouts) as response:
            yield from response.iter_content(_CHUNK)

    return read


def _fetch_all(
    jars: Sequence[Jar], directory: Path, source: Source, settings: BrokerSettings, console: Console
) -> None:
    stop = threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with (
        Progress(*columns, console=console) as progress,
        ThreadPoolExecutor(settings.download_connections, "fetch-jar") as pool,
    ):
        total = progress.add_task(f"Apache Kafka, {len(jars)} jars", total=sum(jar.size for jar in jars))

        def fetch(jar: Jar) -> None:
            _fetch(jar, directory, source, settings.download_attempts, stop, lambda n: progress.advance(total, n))

        futures = [pool.submit(fetch, jar) for jar in jars]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        finally:
            # After an error or Ctrl-C the others end at their next chunk, not at their last.
            stop.set()
            pool.shutdown(cancel_futures=True)


def _fetch(
    jar: Jar, directory: Path, source: Source, attempts: int, stop: threading.Event, advance: Callable[[int], None]
) -> None:
    for attempt in range(1, attempts + 1):
        received = 0
        digest = hashlib.sha256()
        try:
            with NamedTemporaryFile(dir=directory, prefix=f"{jar.filename}.", suffix=".part", delete=False) as part:
                try:
                    for chunk in source(jar):
                        if stop.is_set():
                            return
                        part.write(chunk)
                        digest.update(chunk)
                        received += len(chunk)
                        advance(len(chunk))
                    part.close()
                    if received < jar.size:
                        raise ConnectionError(f"the connection ended after {received:,} of {jar.size:,} bytes")
                    _refuse_another(jar, digest.hexdigest())
                    Path(part.name).replace(directory / jar.filename)
                    return
                finally:
                    Path(part.name).unlink(missing_ok=True)
        except OSError as error:
            advance(-received)
            if attempt == attempts:
                raise JarError(
                    f"Cannot fetch {jar.coordinates} ({error}); check the network, or set KILN_MAVEN_MIRROR "
                    "to a Maven repository that you can reach, and run the command again."
                ) from error
            if stop.wait(0.5 * 2**attempt):
                return


def _refuse_another(jar: Jar, sha256: str) -> None:
    if sha256 != jar.sha256:
        raise JarError(
            f"{jar.coordinates} was refused: its SHA-256 is {sha256}, and {LOCK.name} says {jar.sha256}; "
            "something between you and Maven Central altered it, so try another network or KILN_MAVEN_MIRROR."
        )


def _sweep(directory: Path) -> None:
    """Remove what a killed fetch left; a fetch that runs beside this one keeps its own."""
    for part in directory.glob("*.part"):
        with suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime > _ABANDONED_SECONDS:
                part.unlink()

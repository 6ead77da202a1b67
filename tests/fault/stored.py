"""The store of a run, read as files."""

from pathlib import Path

from tests.fault.history import Stored


def read_store(folder: Path) -> Stored:
    """Outcomes by job id and artifacts by URI. Hidden folders hold what killed writers left, and are none of either."""
    outcomes = {path.stem: path.read_bytes() for path in (folder / "outcomes").glob("*.json")}
    artifacts = {path.as_uri(): path.read_bytes() for path in (folder / "artifacts").glob("*/*") if path.is_file()}
    return Stored(outcomes, artifacts)

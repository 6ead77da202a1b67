import json
from pathlib import Path

import pytest

from schemas.errors import Undecodable
from schemas.observation import decode_observation

GOLDEN = (Path(__file__).parent / "golden" / "Observation.v1.json").read_bytes()
BODY = json.loads(GOLDEN)


def test_its_key_tells_kind_bucket_config_and_device_apart() -> None:
    others: dict[str, object] = {"kind": "other", "bucket": 2, "config_hash": "0" * 64, "device": "CPU a/b"}
    changes = [BODY, *(BODY | {field: other} for field, other in others.items())]
    keys = [decode_observation(json.dumps(body).encode()).key for body in changes]
    assert len(set(keys)) == 5
    assert keys[0] == f"{BODY['kind']}/4/{BODY['config_hash']}/NVIDIA H100 80GB HBM3".encode()


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"peak_bytes": -1},
        {"peak_bytes": 10**400},  # no float, and whoever predicts divides it
        {"bucket": 0},
        {"bucket": 257},
        {"gpu_seconds": 86_401.0},
        {"config_hash": "short"},
        {"at": "yesterday"},
    ],
)
def test_what_is_no_observation_of_this_version_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Undecodable, match=f"observation: {next(iter(change))}"):
        decode_observation(json.dumps(BODY | change).encode())


def test_fields_of_a_later_release_are_passed_over() -> None:
    assert decode_observation(json.dumps(BODY | {"later": 1}).encode()) == decode_observation(GOLDEN)

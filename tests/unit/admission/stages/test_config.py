"""Which configuration a request gets."""

from dataclasses import replace
from typing import Any

import pytest

from admission.decide import decide
from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from tests.unit.admission.scene import (
    Partition,
    accepted,
    arrival,
    config_file,
    fresh_state,
    make_world,
    rejected,
    request,
)


def partition(**file: Any) -> Partition:
    """Its config `sketch` has version 1 in use and version 2 retired, and what `file` says beside."""
    sketch = ConfigFile.model_validate(config_file("sketch", retired=True).model_dump() | file)
    return Partition(replace(make_world(), configs=ConfigCatalogue([sketch])))


def test_a_canary_is_split_by_the_name_of_the_request() -> None:
    both = config_file("sketch").model_dump() | {"channels": {"stable": {1: 1, 2: 1}}}
    world = replace(make_world(), configs=ConfigCatalogue([ConfigFile.model_validate(both)]))

    def version(request_id: str, tenant: str = "alice") -> int:
        body = request(request_id, tenant=tenant)
        return accepted(decide(arrival(body), fresh_state(), world, arrival(body).appended_ms)).config.version

    names = [f"r{n}" for n in range(32)]
    assert {version(name) for name in names} == {1, 2}
    assert [version(name) for name in names] == [version(name) for name in names]
    assert [version(name) for name in names] != [version(name, "ivan") for name in names], "the tenant counts, too"


@pytest.mark.parametrize("ref", [{"version": 2}, {"version": 9}])
def test_a_compatible_version_is_taken_and_said_where_it_is_declared(ref: dict[str, int]) -> None:
    asked = request(config={"name": "sketch", **ref})
    item = accepted(partition(compatible={2: 1, 9: 2}).send(asked))
    assert (item.config.label, item.config_hash) == ("sketch@1", item.config.config_hash)
    refused = rejected(partition().send(asked))
    assert refused.code == ("config_retired" if ref["version"] == 2 else "config_version_mismatch")
    assert refused.field == "config"

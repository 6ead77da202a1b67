from collections.abc import Callable
from typing import Any

import pytest

from infra.render.declared import Declared
from infra.render.keda import check_scaled
from infra.render.scaled import scaled_object
from schemas.errors import CatalogueError
from tests.unit.infra.render.conftest import Declare

Break = Callable[[dict[str, Any]], object]


def _metadata(spec: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = spec["triggers"][0]["metadata"]
    return found


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (lambda spec: _metadata(spec).update(lagTreshold="5"), "KEDA ignores metadata.lagTreshold"),
        (lambda spec: _metadata(spec).pop("topic"), "metadata.topic is missing"),
        (lambda spec: _metadata(spec).update(topic=""), "metadata.topic is missing"),
        (lambda spec: _metadata(spec).update(offsetResetPolicy="latest"), "write 'earliest'"),
        (lambda spec: _metadata(spec).update(excludePersistentLag="true"), "write 'false'"),
        (lambda spec: _metadata(spec).update(lagThreshold=5), "write it as text"),
        (lambda spec: spec["triggers"][0].update(type="kafak"), "type 'kafak' is none of ours"),
        (lambda spec: spec["triggers"][0].pop("name"), "name each trigger once"),
        (lambda spec: spec["advanced"].pop("scalingModifiers"), "several triggers give their maximum"),
        (lambda spec: spec["advanced"]["scalingModifiers"].update(target="9.5"), "a whole number above 0"),
        (lambda spec: spec.update(minReplicaCount=9), "minReplicaCount 9 is above maxReplicaCount 8"),
    ],
)
def test_what_keda_would_pass_over_is_refused(example: Declared, broken: Break, sentence: str) -> None:
    found = scaled_object(example, "default", example.pools.pools["default"])
    broken(found["spec"])
    with pytest.raises(CatalogueError, match=sentence):
        check_scaled(found)


@pytest.mark.parametrize(
    "address", ["", "kiln-scaler", "kiln-scaler.a:", "http://kiln-scaler.a:8085", "kiln-scaler.a:65536"]
)
def test_an_address_that_keda_would_only_log_is_refused(example: Declared, address: str) -> None:
    found = scaled_object(example, "slices", example.pools.pools["slices"])
    _metadata(found["spec"])["scalerAddress"] = address
    with pytest.raises(CatalogueError, match=r"metadata\.scalerAddress"):
        check_scaled(found)


@pytest.mark.parametrize("address", ["scaler.keda.svc:9", "[::1]:65535"])
def test_an_address_that_a_declaration_may_have_is_rendered(declare: Declare, address: str) -> None:
    declared = declare(lambda body: body["cluster"].update(scaler={"address": address}))
    found = scaled_object(declared, "slices", declared.pools.pools["slices"])
    assert _metadata(found["spec"])["scalerAddress"] == address

"""Nothing that comes in a request is an address that somebody here calls (case ADM-13)."""

from collections.abc import Iterator
from typing import Any

import grimp
import pytest
from pydantic import ValidationError

from schemas.request import GenerationRequest, first_problem

METADATA_SERVICE = "http://169.254.169.254/latest/meta-data/"
BODY: dict[str, Any] = {"request_id": "r1", "tenant": "alice", "prompt": "a kiln", "config": {"name": "sketch"}}
CLIENTS = {"aiohttp", "urllib", "http", "requests", "httpx", "urllib3"}
HARMLESS = ("from aiohttp import web", "from urllib.parse import ")
# Of Kubernetes, whose address its own environment gives, without redirects; and of an operator's command.
CALLERS = {"gpu_consumer.pod", "gpu_consumer.commands.profile"}


@pytest.mark.parametrize("field", ["webhook", "webhook_url", "callback_url", "image_url", "inputs"])
def test_a_request_has_no_place_for_an_address(field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        GenerationRequest.model_validate({**BODY, field: [METADATA_SERVICE]})
    assert first_problem(refused.value)[0] == field


def test_who_asks_is_not_called_back() -> None:
    """Results are read from Kafka: there is no delivery that could be sent elsewhere, be slow, or show an answer."""
    assert set(callers()) == CALLERS


def callers() -> Iterator[str]:
    """Modules that could open a connection by HTTP: those that import a client of it, but for what parses or serves."""
    graph = grimp.build_graph(
        "schemas", "admission", "streams", "gpu_consumer", include_external_packages=True, cache_dir=None
    )
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module) & CLIENTS:
            for line in graph.get_import_details(importer=module, imported=imported):
                if not line["line_contents"].startswith(HARMLESS):
                    yield module

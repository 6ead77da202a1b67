"""Every published version stays readable, and the published documents are those of the code."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from pydantic import BaseModel

from schemas.codec import decode_object, encode
from schemas.composed import decision_record
from schemas.decision import Decision, decode_decision
from schemas.export import json_schemas
from schemas.observation import decode_observation
from schemas.outcome import decode_outcome
from schemas.progress import decode_progress
from schemas.request import GenerationRequest
from schemas.result import parse_result
from schemas.uptime import decode_uptime
from schemas.work import decode_work
from streams.commands.schemas import PUBLISHED, documents, drift

GOLDEN = Path(__file__).parent / "golden"
RESULTS = ("Succeeded", "Failed", "Rejected", "Cancelled", "Expired")
READERS: dict[str, Callable[[bytes], BaseModel | Decision]] = {
    "GenerationRequest": lambda data: GenerationRequest.model_validate(decode_object(data)),
    "Decision": decode_decision,
    "WorkItem": decode_work,
    "Outcome": decode_outcome,
    "Observation": decode_observation,
    "Uptime": decode_uptime,
    "ProgressEvent": decode_progress,
    **dict.fromkeys(RESULTS, parse_result),
}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_a_published_event_is_read_and_written_as_it_was(path: Path) -> None:
    data = path.read_bytes().strip()
    event = READERS[path.stem.split(".")[0]](data)
    again = decode_object(decision_record(event) if isinstance(event, Decision) else encode(event))
    published = decode_object(data)
    if isinstance(event, Decision) and isinstance(published["work"], str):
        published["work"] = decode_object(published["work"].encode())  # the form of earlier releases
    assert published.items() <= again.items()


def test_each_event_has_a_golden_file() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == {f"{name}.v1" for name in READERS}


@pytest.mark.parametrize("name", RESULTS)
def test_readers_of_results_tolerate_fields_they_do_not_know(name: str) -> None:
    body = json.loads((GOLDEN / f"{name}.v1.json").read_text())
    assert parse_result(json.dumps(body | {"from_a_later_version": {"x": 1}}).encode()) == parse_result(
        json.dumps(body).encode()
    )


def test_a_request_with_an_unknown_field_is_refused_by_the_published_schema_too() -> None:
    schema = json_schemas()["GenerationRequest"]
    body = json.loads((GOLDEN / "GenerationRequest.v1.json").read_text())
    jsonschema.validate(body, schema)
    with pytest.raises(jsonschema.ValidationError, match="promt"):
        jsonschema.validate(body | {"promt": "a typing error"}, schema)


def test_the_published_documents_are_those_of_the_code() -> None:
    assert drift(PUBLISHED) == []


def test_drift_is_told_a_sentence_a_document(tmp_path: Path) -> None:
    problems = drift(tmp_path)
    assert len(problems) == len(documents())
    assert all("kiln schemas export" in problem for problem in problems)


def test_every_reference_of_the_asyncapi_document_leads_somewhere() -> None:
    document = documents()["asyncapi.json"]

    def references(node: object) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return own + [found for value in node.values() for found in references(value)]
        return [found for each in node for found in references(each)] if isinstance(node, list) else []

    for reference in references(document):
        target = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]

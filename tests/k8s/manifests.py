"""Our rendered manifests as a real API server takes them: every field known, and a misspelt one refused by its name."""

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.k8s.api import Api, Refused


def apply_all(api: Api, documents: Sequence[dict[str, Any]]) -> None:
    """Raises Refused for one that the server does not take. Kinds whose operators are not here are passed over:
    `make infra-check` holds those to their own schemas."""
    applied: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for document in documents:
        served = _kinds(api, document["apiVersion"])
        if document["kind"] in served:
            api.apply(document)
            applied[document["kind"]] += 1
        else:
            unknown[document["kind"]] += 1
    print(f"applied: {_told(applied)}; no operator here for: {_told(unknown)}", flush=True)


def refuse_misspelt(api: Api, documents: Sequence[dict[str, Any]]) -> None:
    """The strictness is real: one letter more, and the server says which field it is."""
    for kind, field in (("Deployment", "progressDeadlineSecondss"), ("ScaledObject", "pollingIntervall")):
        document = copy.deepcopy(next(each for each in documents if each["kind"] == kind))
        document["spec"][field] = 1
        said = _refusal(api, document)
        assert field in said, f"a {kind} with {field} was to be refused: {said or 'it was taken'}"
        print(f"refused, as it must be: {said}", flush=True)


def _refusal(api: Api, document: dict[str, Any]) -> str:
    try:
        api.apply(document, dry_run=True)
    except Refused as refused:
        return refused.message
    return ""


def _kinds(api: Api, version: str) -> set[str]:
    found = api.find(f"/apis/{version}" if "/" in version else f"/api/{version}")
    return {each["kind"] for each in found["resources"]} if found else set()


def _told(kinds: Counter[str]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())) or "none"

"""The API server as a client sees it: applied strictly, so that a field nobody knows is refused by its name."""

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]
_MANAGER = "kiln-test"
_SECONDS = 20
# Where a kind's path does not follow from its name.
_PLURALS = {"NetworkPolicy": "networkpolicies"}
_WITHOUT_NAMESPACE = {"Namespace", "CustomResourceDefinition", "APIService", "ClusterRole", "ClusterRoleBinding"}


class Refused(Exception):
    """What the API server says of a request that it does not take."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Api:
    """Every call blocks for the answer. Raises Refused, or OSError where nobody answers."""

    def __init__(self, address: str, authority: Path, token: str) -> None:
        self.address = address
        self._token = token
        self._context = ssl.create_default_context(cafile=authority)

    def get(self, path: str, **query: str) -> Any:
        return self._call("GET", path, query)

    def find(self, path: str, **query: str) -> Any | None:
        """None where it is not there."""
        try:
            return self.get(path, **query)
        except Refused as refused:
            if refused.status != 404:
                raise
            return None

    def apply(self, document: Document, *, dry_run: bool = False) -> Any:
        """Server-side, with strict validation of every field."""
        query = {"fieldManager": _MANAGER, "fieldValidation": "Strict", "force": "true"}
        if dry_run:
            query["dryRun"] = "All"
        return self._call("PATCH", path_of(document), query, document, "application/apply-patch+yaml")

    def merge(self, path: str, change: Document) -> Any:
        return self._call("PATCH", path, {}, change, "application/merge-patch+json")

    def token(self, namespace: str, account: str) -> str:
        """By which a pod of this service account may ask, with the rights of its roles."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        given: str = self._call("POST", path, {}, asked, "application/json")["status"]["token"]
        return given

    def _call(
        self, method: str, path: str, query: Mapping[str, str], body: Document | None = None, content: str = ""
    ) -> Any:
        asked = urllib.parse.urlencode(query)
        request = urllib.request.Request(
            f"{self.address}{path}{'?' + asked if asked else ''}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
            | ({"Content-Type": content} if content else {}),
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=_SECONDS) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, _message(error.read())) from error
        return json.loads(text) if text[:1] in (b"{", b"[") else text.decode()


def path_of(document: Document) -> str:
    """Where a document is to be found."""
    kind, metadata = document["kind"], document["metadata"]
    version = document["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    place = "" if kind in _WITHOUT_NAMESPACE else f"/namespaces/{metadata['namespace']}"
    return f"{base}{place}/{plural}/{metadata['name']}"


def _message(text: bytes) -> str:
    try:
        said = json.loads(text)
    except ValueError:
        return text.decode(errors="replace")[:1000]
    return str(said.get("message", said))

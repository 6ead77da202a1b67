from typing import Any

from infra.render.documents import documents
from infra.render.manifest import Manifest
from tests.unit.infra.render.conftest import Declare, Found


def _of(found: Found, file: str, kind: str) -> Manifest:
    (one,) = (each for each in found[file] if each["kind"] == kind)
    return one


def test_a_consumer_may_patch_the_status_of_pods_and_nothing_else(found: Found) -> None:
    """It writes on its own what its end would cost, so that the cheapest is taken first. Whoever may patch pods
    themselves runs any image as any account of the namespace."""
    account, role, binding = (
        _of(found, "pool-default.yaml", kind) for kind in ("ServiceAccount", "Role", "RoleBinding")
    )
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "promptkiln"}
    ]
    pod = _of(found, "pool-default.yaml", "Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is True


def test_a_consumers_policy_lets_it_ask_the_api_server_and_the_store(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["store"]["endpoint_url"] = "http://minio:9000"

    policy = _of(documents(declare(change)), "pool-default.yaml", "NetworkPolicy")
    ports = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert ports == {53, 443, 5353, 6443, 9000, 9093}


def test_an_identity_of_a_cloud_is_every_accounts(declare: Declare) -> None:
    def change(body: dict[str, Any]) -> None:
        body["cluster"]["service_account_annotations"] = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/kiln"}

    accounts = [
        each for made in documents(declare(change)).values() for each in made if each["kind"] == "ServiceAccount"
    ]
    assert len(accounts) == 4
    assert all(each["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] for each in accounts)


def test_the_namespace_holds_its_pods_to_the_strictest_standard(found: Found) -> None:
    (namespace,) = found["namespace.yaml"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"

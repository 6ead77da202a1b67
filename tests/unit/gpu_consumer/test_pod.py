"""What the end of a pod costs, when that is worth a word, and whose pod it is."""

from pathlib import Path

import pytest

from gpu_consumer.pod import ApiServer, Pod, deletion_cost, pod_of, worth_telling
from gpu_consumer.settings import GpuConsumerSettings


@pytest.mark.parametrize(
    ("seconds", "cost"), [(0.0, 0), (0.1, 1), (12.0, 12), (12.3, 13), (-1.0, 0), (1e18, 2**31 - 1)]
)
def test_the_cost_is_what_is_left_in_whole_seconds(seconds: float, cost: int) -> None:
    assert deletion_cost(seconds) == cost


@pytest.mark.parametrize(
    ("told", "cost", "worth"),
    [
        (None, 0, True),  # a former container of the pod may have said more
        (None, 5, True),
        (0, 0, False),
        (0, 1, True),
        (900, 0, True),
        (100, 100, False),
        (100, 81, False),
        (100, 79, True),
        (100, 124, False),
        (100, 126, True),
    ],
)
def test_what_changed_little_is_not_told(told: int | None, cost: int, worth: bool) -> None:
    assert worth_telling(told, cost) is worth


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("secret")
    return tmp_path


def test_a_pod_is_known_by_its_name_its_server_and_its_token(account: Path) -> None:
    settings = GpuConsumerSettings(pod_name="p", namespace="kiln", service_account_dir=account)
    pod = pod_of(settings, ApiServer(host="10.0.0.1", port=6443))
    assert pod == Pod("p", "kiln", "10.0.0.1", 6443, account)
    assert pod.url == "https://10.0.0.1:6443/api/v1/namespaces/kiln/pods/p/status"
    assert Pod("p", "kiln", "fd00::1", 443, account).url.startswith("https://[fd00::1]:443/")


@pytest.mark.parametrize("missing", ["pod_name", "namespace", "host", "token"])
def test_outside_of_kubernetes_there_is_none(account: Path, missing: str) -> None:
    known = {"pod_name": "p", "namespace": "kiln", "host": "10.0.0.1"}
    known.pop(missing, None)
    if missing == "token":
        (account / "token").unlink()
    settings = GpuConsumerSettings(
        pod_name=known.get("pod_name"), namespace=known.get("namespace"), service_account_dir=account
    )
    assert pod_of(settings, ApiServer(host=known.get("host"))) is None


def test_the_server_is_where_kubernetes_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.7")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "8443")
    assert ApiServer() == ApiServer(host="10.0.0.7", port=8443)

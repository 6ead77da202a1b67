"""A control plane on loopback: etcd, API server, controllers, KEDA's operator and metrics adapter. No node, no kubelet:
pods stay pending, and count."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.fault.children import Child, stop_all
from tests.fault.waiting import Deadline
from tests.k8s.api import Api, Refused
from tests.k8s.build import Programs
from tests.k8s.certificates import Certificates, make_certificates

_ETCD, _PEERS, _API, _METRICS = 49379, 49380, 49443, 49643  # of a network of our own, in which nobody else is
_GRPC, _STOP_SECONDS = 49666, 10
_TOKEN = "kiln-test-only"
_METRICS_API = "/apis/external.metrics.k8s.io/v1beta1"
# The controllers that a Deployment under an autoscaler needs, and those of what is rendered beside it.
_CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "horizontal-pod-autoscaler-controller", "namespace-controller",
    "garbage-collector-controller", "serviceaccount-controller", "disruption-controller",
)  # fmt: skip


class Plane:
    """`children` are its processes, in the order of their start; `kubeconfig` is an administrator's."""

    def __init__(self, folder: Path, programs: Programs, deadline: Deadline) -> None:
        self._programs = programs
        self._deadline = deadline
        self._folder = folder
        self._keys = make_certificates(folder / "keys")
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(_kubeconfig(self._keys), encoding="utf-8")
        self.api = Api(f"https://127.0.0.1:{_API}", self._keys.authority, _TOKEN)
        self.children: list[Child] = []

    def start(self, namespace: str) -> None:
        """Returns when KEDA's metrics can be asked for. Raises TooLate."""
        self._start("etcd", self._programs.etcd, _etcd_flags(self._folder / "etcd"))
        self._start("apiserver", self._programs.apiserver, _apiserver_flags(self._keys, self._tokens()))
        self._wait(lambda: self._answers("/readyz"), "the API server")
        self._start("controllers", self._programs.controllers, _controller_flags(self.kubeconfig, self._keys))
        for name in ("keda", namespace):
            self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._define()
        self._start("keda-operator", self._programs.operator, _operator_flags(self._keys), "operator")
        self._start("keda-adapter", self._programs.adapter, _adapter_flags(self.kubeconfig, self._keys), "adapter")
        for document in _aggregated():
            self.api.apply(document)
        self._wait(lambda: self._answers(_METRICS_API), "KEDA's metrics API")

    def in_pod(self, namespace: str, account: str) -> dict[str, str]:
        """What a pod of a service account finds: where the API server is, and its own token."""
        folder = self._folder / f"account-{account}"
        folder.mkdir()
        (folder / "token").write_text(self.api.token(namespace, account), encoding="utf-8")
        (folder / "ca.crt").write_bytes(self._keys.authority.read_bytes())
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(_API),
            "KILN_GPU_SERVICE_ACCOUNT_DIR": str(folder),
        }

    def check(self) -> None:
        """Fails where a process has ended by itself."""
        for child in self.children:
            assert child.running, f"{child.name} ended with status {child.exit_status}; see {child.log}"

    def _define(self) -> None:
        """KEDA's kinds of resources."""
        names = []
        for path in sorted(self._programs.definitions.glob("*.yaml")):
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
            self.api.apply(document)
            names.append(document["metadata"]["name"])
        self._wait(lambda: all(self._established(name) for name in names), "KEDA's kinds")

    def _established(self, name: str) -> bool:
        found = self.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = found.get("status", {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    def _tokens(self) -> Path:
        path = self._folder / "tokens.csv"
        path.write_text(f'{_TOKEN},admin,admin,"system:masters"\n', encoding="utf-8")
        return path

    def _start(self, name: str, program: Path, flags: Sequence[str], role: str = "") -> None:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), **(_KEDA if role else {})}
        child = Child(name, [str(program), *flags], environment, 0, self._folder / f"{name}.log")
        self.children.append(child)
        child.start()

    def _answers(self, path: str) -> bool:
        try:
            self.api.get(path)
        except (OSError, Refused):
            return False
        return True

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        self._deadline.wait_for(condition, what, meanwhile=self.check, poll_seconds=0.2)


@contextmanager
def plane(folder: Path, programs: Programs, deadline: Deadline) -> Iterator[Plane]:
    """Not started yet. All that was started is stopped at the end, the last first."""
    folder.mkdir(parents=True)
    made = Plane(folder, programs, deadline)
    try:
        yield made
    finally:
        for child in reversed(made.children):
            stop_all([child], Deadline(_STOP_SECONDS), seconds=_STOP_SECONDS)


_KEDA: Mapping[str, str] = {"POD_NAMESPACE": "keda", "KEDA_CLUSTER_OBJECT_NAMESPACE": "keda", "WATCH_NAMESPACE": ""}


def _etcd_flags(data: Path) -> list[str]:
    client, peer = f"http://127.0.0.1:{_ETCD}", f"http://127.0.0.1:{_PEERS}"
    return [
        f"--data-dir={data}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]  # fmt: skip


def _apiserver_flags(keys: Certificates, tokens: Path) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{_ETCD}",
        "--bind-address=127.0.0.1", f"--secure-port={_API}", "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
        f"--tls-cert-file={keys.apiserver.certificate}", f"--tls-private-key-file={keys.apiserver.key}",
        f"--client-ca-file={keys.authority}", f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys.accounts}", f"--service-account-signing-key-file={keys.accounts}",
        f"--requestheader-client-ca-file={keys.authority}", "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={keys.front_proxy.certificate}", f"--proxy-client-key-file={keys.front_proxy.key}",
        "--disable-admission-plugins=ServiceAccount",  # nobody mounts a token into a pod that runs nowhere
    ]  # fmt: skip


def _controller_flags(kubeconfig: Path, keys: Certificates) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", "--secure-port=0",
        "--leader-elect=false", f"--controllers={','.join(_CONTROLLERS)}",
        "--horizontal-pod-autoscaler-sync-period=1s",  # its default of 15 s would make the test wait, and show no more
        f"--service-account-private-key-file={keys.accounts}", f"--root-ca-file={keys.authority}",
    ]  # fmt: skip


def _operator_flags(keys: Certificates) -> list[str]:
    return [
        "--metrics-bind-address=127.0.0.1:49681", "--health-probe-bind-address=127.0.0.1:49682",
        f"--metrics-service-bind-address=127.0.0.1:{_GRPC}", f"--cert-dir={keys.keda}", "--leader-elect=false",
        "--zap-log-level=info",
    ]  # fmt: skip


def _adapter_flags(kubeconfig: Path, keys: Certificates) -> list[str]:
    return [
        "--port=49683", f"--secure-port={_METRICS}", "--bind-address=127.0.0.1", f"--cert-dir={keys.keda}",
        f"--tls-cert-file={keys.keda / 'tls.crt'}", f"--tls-private-key-file={keys.keda / 'tls.key'}",
        f"--metrics-service-address=127.0.0.1:{_GRPC}", f"--kubeconfig={kubeconfig}",
        f"--lister-kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]  # fmt: skip


def _aggregated() -> list[dict[str, object]]:
    """External metrics, which the API server asks KEDA's adapter for."""
    service = "keda-metrics-apiserver"
    return [
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": "keda"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
            "spec": {
                "service": {"name": service, "namespace": "keda", "port": _METRICS},
                "group": "external.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100, "versionPriority": 100,
            },
        },
    ]  # fmt: skip


def _kubeconfig(keys: Certificates) -> str:
    server = {"server": f"https://127.0.0.1:{_API}", "certificate-authority": str(keys.authority)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "admin", "user": {"token": _TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }
    )  # fmt: skip

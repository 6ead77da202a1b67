"""What a pod says to an API server over TLS, with the account that Kubernetes gives it, and what it does if refused.

Case KEDA-11: the autoscaler cannot know which pod is busy, so the pod says it.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gpu_consumer import pod as pods
from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.pod import ANNOTATION, Pod, patch_cost, telling_cost
from tests.integration.gpu_pool import eventually

_CERTIFICATES = Path(__file__).with_name("certificates")  # of the loopback, for a hundred years


@dataclass
class Said:
    path: str
    token: str
    content_type: str
    body: Any


@dataclass
class ApiServer:
    """Writes down what it is told, and answers with `status`."""

    account: Path
    status: int = 200
    location: str = ""  # where it sends who asks, if not here
    heard: list[Said] = field(default_factory=list)
    port: int = 0

    @property
    def pod(self) -> Pod:
        return Pod("kiln-gpu-a-1", "kiln", "127.0.0.1", self.port, self.account)

    @property
    def costs(self) -> list[str]:
        return [said.body["metadata"]["annotations"][ANNOTATION] for said in self.heard]

    async def patch(self, request: web.Request) -> web.Response:
        token = request.headers["Authorization"]
        self.heard.append(Said(request.path, token, request.content_type, await request.json()))
        headers = {"Location": self.location} if self.location else {}
        return web.json_response({"message": "pods is forbidden"}, status=self.status, headers=headers)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes((_CERTIFICATES / "loopback.crt").read_bytes())
    return tmp_path


@asynccontextmanager
async def serving(account: Path) -> AsyncIterator[ApiServer]:
    server, app = ApiServer(account), web.Application()
    app.router.add_patch("/{path:.*}", server.patch)
    runner = web.AppRunner(app)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(_CERTIFICATES / "loopback.crt", _CERTIFICATES / "loopback.key")
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said twice because the machine is busy."""
    monkeypatch.setattr(pods, "_CALL_SECONDS", 60.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "_BACKOFF_SECONDS", (0.01, 0.02))


async def test_the_pod_is_annotated_as_kubernetes_wants_it(account: Path) -> None:
    async with serving(account) as server, aiohttp.ClientSession() as session:
        await patch_cost(session, server.pod, 12)
        (account / "token").write_text("second\n")  # as the kubelet does within the hour
        await patch_cost(session, server.pod, 0)
    path, kind = "/api/v1/namespaces/kiln/pods/kiln-gpu-a-1/status", "application/merge-patch+json"
    assert server.heard == [
        Said(path, "Bearer first", kind, {"metadata": {"annotations": {ANNOTATION: "12"}}}),
        Said(path, "Bearer second", kind, {"metadata": {"annotations": {ANNOTATION: "0"}}}),
    ]


async def test_nobody_else_is_given_the_token(account: Path) -> None:
    (account / "ca.crt").write_bytes((_CERTIFICATES / "another.crt").read_bytes())
    async with serving(account) as server, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await patch_cost(session, server.pod, 12)
    assert server.heard == []


async def test_a_server_that_sends_us_elsewhere_is_not_followed(account: Path) -> None:
    async with serving(account) as server, aiohttp.ClientSession() as session:
        server.status, server.location = 307, f"https://localhost:{server.port}/elsewhere"
        with pytest.raises(aiohttp.ClientError, match="307"):
            await patch_cost(session, server.pod, 12)
    assert len(server.heard) == 1


async def test_a_refusal_says_why(account: Path) -> None:
    async with serving(account) as server, aiohttp.ClientSession() as session:
        server.status = 403
        with pytest.raises(aiohttp.ClientError, match=r"403 Forbidden: .*pods is forbidden"):
            await patch_cost(session, server.pod, 12)


async def test_it_is_told_when_it_changes_and_not_otherwise(account: Path) -> None:
    left = [0.0]
    metrics = GpuMetrics()
    async with serving(account) as server, telling_cost(server.pod, lambda: left[0], metrics, seconds=0.01):
        await eventually(lambda: server.costs == ["0"], "a former container's word is taken back")
        left[0] = 100.0
        await eventually(lambda: server.costs == ["0", "100"], "it is told")
        left[0] = 300.0
        await eventually(lambda: server.costs == ["0", "100", "300"], "it is told anew")
        await eventually(
            lambda: metrics.registry.get_sample_value("kiln_gpu_deletion_cost") == 300, "the metric says so, too"
        )


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_refuses_harms_nothing_and_is_told_later(account: Path) -> None:
    metrics = GpuMetrics()

    def failures() -> float:
        return metrics.registry.get_sample_value("kiln_gpu_deletion_cost_failures_total") or 0.0

    async with serving(account) as server:
        server.status = 403
        async with telling_cost(server.pod, lambda: 7.0, metrics, seconds=0.01):
            await eventually(lambda: failures() > 2, "it was refused again and again")
            server.status = 200
            known = len(server.heard)
            await eventually(lambda: metrics.registry.get_sample_value("kiln_gpu_deletion_cost") == 7, "it is told")
            assert len(server.heard) > known


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("broken", ["no server", "no token", "no authority"])
async def test_whatever_is_missing_harms_nothing(account: Path, broken: str) -> None:
    metrics = GpuMetrics()
    async with serving(account) as server:
        pod = server.pod
        if broken == "no server":
            pod = Pod(pod.name, pod.namespace, pod.host, 1, account)
        else:
            (account / {"no token": "token", "no authority": "ca.crt"}[broken]).unlink()
        async with telling_cost(pod, lambda: 7.0, metrics, seconds=0.01):
            await eventually(
                lambda: (metrics.registry.get_sample_value("kiln_gpu_deletion_cost_failures_total") or 0) > 1,
                "it fails and is tried again",
            )


async def test_outside_of_kubernetes_nobody_is_told() -> None:
    async with telling_cost(None, lambda: 1 / 0, GpuMetrics(), seconds=0.01):
        pass

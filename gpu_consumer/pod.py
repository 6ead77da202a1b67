"""What the end of this pod would cost, told to Kubernetes: of two pods it takes away the one that costs less.

The annotation is advice and best effort: a pod is never the worse for not having it.
https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost
"""

import asyncio
import logging
import math
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import aiohttp
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from gpu_consumer.metrics import GpuMetrics
from gpu_consumer.settings import GpuConsumerSettings
from streams.backoff import Backoff

_LOG = logging.getLogger(__name__)
ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
_COST_MAX = 2**31 - 1
_CHANGED = 0.2  # of the cost: a difference that may matter between two pods
_CALL_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_BACKOFF_SECONDS = (5.0, 300.0)


class ApiServer(BaseSettings):
    """Where Kubernetes says that its API server is, in every pod."""

    model_config = SettingsConfigDict(env_prefix="KUBERNETES_SERVICE_", frozen=True)

    host: str | None = None
    port: Annotated[int, Field(ge=1, le=65_535)] = 443


def deletion_cost(gpu_seconds: float) -> int:
    """Of a pod that has so much left to do. 0, which is what a pod without the annotation has: nothing is lost."""
    return min(_COST_MAX, math.ceil(max(0.0, gpu_seconds)))


def worth_telling(told: int | None, cost: int) -> bool:
    """Whether an API server should hear of it: each word is a write to every watcher of the pod."""
    return told is None or abs(cost - told) > _CHANGED * max(cost, told)


@dataclass(frozen=True, slots=True)
class Pod:
    """This pod, and how to reach its API server. `account`: a folder with `token`, which changes, and `ca.crt`."""

    name: str
    namespace: str
    host: str
    port: int
    account: Path

    @property
    def url(self) -> str:
        """Of its status, which takes annotations, too: who may patch a pod itself may put any image into it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}/api/v1/namespaces/{self.namespace}/pods/{self.name}/status"


def pod_of(settings: GpuConsumerSettings, server: ApiServer) -> Pod | None:
    """None outside of Kubernetes, or where the pod has no token."""
    account = settings.service_account_dir
    if settings.pod_name is None or settings.namespace is None or server.host is None:
        return None
    if not (account / "token").is_file():
        _LOG.info("no token in %s: nobody is told what the end of this pod would cost", account)
        return None
    return Pod(settings.pod_name, settings.namespace, server.host, server.port, account)


@asynccontextmanager
async def telling_cost(
    pod: Pod | None, gpu_seconds: Callable[[], float], metrics: GpuMetrics, *, seconds: float
) -> AsyncIterator[None]:
    """For the time of the block: say what is left to do, at most every `seconds`. Nothing waits for it."""
    if pod is None:
        yield
        return
    task = asyncio.create_task(_tell(pod, gpu_seconds, metrics, seconds), name="deletion cost")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _tell(pod: Pod, gpu_seconds: Callable[[], float], metrics: GpuMetrics, seconds: float) -> None:
    told: int | None = None  # by a former container of this pod, perhaps
    backoff = Backoff(*_BACKOFF_SECONDS)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_CALL_SECONDS)) as session:
        while True:
            cost = deletion_cost(gpu_seconds())
            if not worth_telling(told, cost):
                await asyncio.sleep(min(seconds, _LOOK_SECONDS))
                continue
            try:
                await patch_cost(session, pod, cost)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                metrics.count("deletion_cost_failures_total")
                pause = backoff.next()
                _LOG.warning(
                    "Kubernetes was not told what the end of this pod would cost: %s; again in %.0f s", error, pause
                )
                await asyncio.sleep(pause)
            else:
                told = cost
                metrics.set("deletion_cost", cost)
                backoff.reset()
                await asyncio.sleep(seconds)


async def patch_cost(session: aiohttp.ClientSession, pod: Pod, cost: int) -> None:
    """Annotate the pod. Raises aiohttp.ClientError where the server cannot be reached or refuses; OSError or
    ValueError where the account's files cannot be used."""
    token = (pod.account / "token").read_text().strip()  # anew each time: the kubelet changes it
    async with session.patch(
        pod.url,
        json={"metadata": {"annotations": {ANNOTATION: str(cost)}}},
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"},
        ssl=ssl.create_default_context(cafile=pod.account / "ca.crt"),
        allow_redirects=False,
    ) as answer:
        if answer.status != 200:
            said = (await answer.text())[:300]
            raise aiohttp.ClientError(f"{answer.status} {answer.reason}: {said}")

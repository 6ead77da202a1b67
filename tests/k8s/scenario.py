"""One pool from nothing to as many as it may have, and back: work through admission, replicas by KEDA and the HPA."""

import asyncio
from collections import Counter
from collections.abc import Callable

from infra.render.gpu import COMPONENT
from infra.render.manifest import gpu_name, selector
from schemas.request import LANES, ConfigRef, GenerationRequest
from schemas.result import GenerationResult
from streams.client import PromptClient, read_results
from tests.fault.children import Child
from tests.fault.waiting import Deadline
from tests.k8s.jobs import Jobs
from tests.k8s.member import held
from tests.k8s.plane import Plane
from tests.k8s.standins import StandIns
from tests.k8s.timeline import Timeline
from tests.k8s.world import LONG_SECONDS, NAMESPACE, REPLICAS_MAX, World, long, quick

JOBS = 60  # beside the long one, so that fifteen may wait at each of four replicas
QUICK, LONG = "quick", "long"  # what a job waits for before it ends
_LOOK_SECONDS = 0.3
_LONG_COST_MIN = LONG_SECONDS / 10  # so much a consumer says at least is left of what takes longer than it should


class Scenario:
    """`run` it once, in a namespace where the pool's manifests are. Case KEDA-11: who is in the middle of a job stays,
    and each job ends once, whoever was asked to stop."""

    def __init__(self, world: World, plane: Plane, pool: str, deadline: Deadline, title: str) -> None:
        self.timeline = Timeline(title)
        self._world = world
        self._plane = plane
        self._pool = pool
        self._deadline = deadline
        self._releases = world.folder / f"releases-{pool}"
        self._releases.mkdir()
        labels = ",".join(f"{key}={value}" for key, value in selector(COMPONENT, pool).items())
        in_pod = plane.in_pod(NAMESPACE, gpu_name(pool))
        self._pods = StandIns(plane.api, NAMESPACE, labels, lambda pod: world.member(pool, pod, self._releases, in_pod))
        topics = [world.catalogue.work(pool, lane) for lane in LANES]
        partitions = world.catalogue.pools[pool].partitions
        self._lag = Jobs(world.kafka.bootstrap_servers, world.catalogue.gpu_group(pool), topics, partitions)
        self._wanted = self._there = self._jobs = 0

    @property
    def children(self) -> list[Child]:
        return self._pods.all

    def run(self) -> None:
        """Raises TooLate where something does not happen, AssertionError where something else does."""
        self._until(self._asleep, "KEDA has made an autoscaler, and there is no replica")
        asyncio.run(self._send(self._quick()))
        self.timeline.say(f"{JOBS} jobs are sent")
        self._until(lambda: self._there == REPLICAS_MAX, "as many replicas as there may be")
        self._until(lambda: self._pods.ready == REPLICAS_MAX, "all of them take work")
        # Now, for what is chosen right before partitions move is begun by their next owner when its mark has run out.
        asyncio.run(self._send([self._request("long", held(LONG), long(self._pool), JOBS)]))
        self.timeline.say("a long job is sent")
        self._let_go(QUICK)
        self._until(lambda: self._jobs == 1 and self._busy() is not None, "one long job is left, at one pod")
        busy = self._busy()
        self._until(lambda: self._there == len(self._pods.children) == 1, "one replica is left")
        assert self._pods.children.keys() == {busy}, "the pod that is busy was to stay"
        (cost,) = self._pods.costs.values()
        assert cost >= _LONG_COST_MIN, f"what is left of the long job was to be the cost of its end, which is {cost}"
        self.timeline.say(f"it is the busy one; its end would cost {cost} GPU-seconds")
        self._let_go(LONG)
        self._until(lambda: self._jobs == 0, "the long one is done")
        self._until(lambda: (self._wanted, self._there) == (0, 0) and not self.children, "no replica is left")
        self._check(asyncio.run(self._results()))

    def look(self) -> None:
        self._plane.check()
        self._pods.look()
        found = self._plane.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{gpu_name(self._pool)}")
        self._wanted, self._there = found["spec"].get("replicas", 1), found["status"].get("replicas", 0)
        self._jobs = self._lag.not_done()
        self.timeline.see(wanted=self._wanted, pods=self._there, ready=self._pods.ready, jobs=self._jobs)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        self.look()
        self._deadline.wait_for(condition, f"{self._pool}: {what}", meanwhile=self.look, poll_seconds=_LOOK_SECONDS)
        self.timeline.say(what)

    def _asleep(self) -> bool:
        path = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/{gpu_name(self._pool)}"
        return self._plane.api.find(path) is not None and (self._wanted, self._there) == (0, 0)

    def _busy(self) -> str | None:
        """The pod whose end would cost what is left of a long job, if all others say that theirs costs nothing."""
        told = [(pod, cost) for pod, cost in self._pods.costs.items() if cost]
        return told[0][0] if len(told) == 1 and told[0][1] >= _LONG_COST_MIN else None

    def _let_go(self, release: str) -> None:
        (self._releases / release).touch()
        self.timeline.say(f"{release} jobs may end")

    def _quick(self) -> list[GenerationRequest]:
        configs = quick(self._pool)
        return [
            self._request(f"job{number}", held(QUICK), configs[number % len(configs)], number) for number in range(JOBS)
        ]

    async def _send(self, requests: list[GenerationRequest]) -> None:
        async with PromptClient(self._world.kafka, self._world.catalogue, results=False) as client:
            await client.submit(requests)

    def _request(self, name: str, prompt: str, config: str, number: int) -> GenerationRequest:
        return GenerationRequest(
            tenant="blue",
            request_id=f"{self._pool}-{name}",
            prompt=prompt,
            config=ConfigRef(name=config),
            priority=LANES[number % 3],
        )

    async def _results(self) -> list[GenerationResult]:
        found = read_results(self._world.kafka, self._world.catalogue)
        return [result async for result in found if result.request_id.startswith(self._pool)]

    def _check(self, results: list[GenerationResult]) -> None:
        """Every job ended once, and well: whoever was asked to stop has handed back what it could not end."""
        ended = Counter(result.request_id for result in results)
        assert len(ended) == JOBS + 1, f"{len(ended)} of {JOBS + 1} jobs have ended"
        assert set(ended.values()) == {1}, "a job ended twice"
        assert {result.status for result in results} == {"succeeded"}

"""What a kubelet would do, with processes in the place of pods: one starts where a pod is made, and is asked to stop
where the pod is gone. The pods themselves stay pending, which no controller minds."""

import signal
from collections.abc import Callable
from typing import Any

from tests.fault.children import Child
from tests.k8s.api import Api

_ENDED_WELL = (0, -signal.SIGTERM)  # the latter where it was not yet so far that it listens
_COST = "controller.kubernetes.io/pod-deletion-cost"


class StandIns:
    """Call `look` again and again. `make` gives the process of a pod by its name, not started yet."""

    def __init__(self, api: Api, namespace: str, selector: str, make: Callable[[str], Child]) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = selector
        self._make = make
        self._leaving: list[Child] = []
        self.children: dict[str, Child] = {}
        self.costs: dict[str, int] = {}  # of the pods that are there, as they say it themselves

    def look(self) -> None:
        """Fails where a process has ended by itself."""
        pods = {
            pod["metadata"]["name"]: pod
            for pod in self._api.get(self._path, labelSelector=self._selector)["items"]
            if "deletionTimestamp" not in pod["metadata"]
        }
        self.costs = {name: cost_of(pod) for name, pod in pods.items()}
        for name in pods.keys() - self.children.keys():
            self.children[name] = self._make(name)
            self.children[name].start()
        for name in self.children.keys() - pods.keys():
            child = self.children.pop(name)
            child.signal(signal.SIGTERM)
            self._leaving.append(child)
        for child in self.children.values():
            assert child.running, f"{child.name} ended with status {child.exit_status}; see {child.log}"
        for child in [each for each in self._leaving if not each.running]:
            self._leaving.remove(child)
            assert child.exit_status in _ENDED_WELL, f"{child.name} was to drain, and ended with {child.exit_status}"

    @property
    def ready(self) -> int:
        """How many take work."""
        return sum(child.was_ready or child.ready() for child in self.children.values())

    @property
    def all(self) -> list[Child]:
        """Those, too, that are on their way out."""
        return [*self.children.values(), *self._leaving]


def cost_of(pod: Any) -> int:
    return int(pod["metadata"].get("annotations", {}).get(_COST, "0"))

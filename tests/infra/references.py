"""What objects say of each other: no schema tells that a name leads nowhere, or that a selector finds nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_settings import BaseSettings

from infra.scaler.wish import WishRefused, wish_of
from schemas.pools import Pools
from schemas.topics import Catalogue
from streams.cli import build
from tests.infra.outcome import Outcome, counted
from tests.infra.rendered import Object, Rendered

_OURS = ("KILN_", "KAFKA_")
_OTHERS = frozenset({"KEDA_KAFKA_USERNAME"})  # KEDA's trigger reads it from the pods' environment
_SELECTING = {
    "Service": "selector",
    "NetworkPolicy": "podSelector",
    "PodDisruptionBudget": "selector",
    "PodMonitor": "selector",
}
_SECRET = ("PASSWORD", "SECRET", "ACCESS_KEY")


@dataclass(frozen=True, slots=True)
class Cluster:
    """All objects that were rendered together."""

    objects: tuple[Object, ...]

    def of(self, *kinds: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] in kinds]

    def names(self, kind: str) -> set[str]:
        return {each["metadata"]["name"] for each in self.of(kind)}

    def pods(self, wanted: Mapping[str, str]) -> list[Object]:
        """The pod templates that have all these labels."""
        templates = [each["spec"]["template"] for each in self.of("Deployment")]
        return [each for each in templates if wanted.items() <= each["metadata"]["labels"].items()]


def references(rendered: Rendered, pools: Pools, catalogue: Catalogue) -> Outcome:
    cluster = Cluster(tuple(document for _, document in rendered.objects()))
    found = [*_twice(cluster), *_secrets(cluster), *_selectors(cluster), *_accounts(cluster)]
    known = known_settings()
    for each in cluster.of("Deployment"):
        found += [f"Deployment {each['metadata']['name']}: {problem}" for problem in _deployment(each, cluster, known)]
    for each in cluster.of("ScaledObject"):
        name = each["metadata"]["name"]
        found += [f"ScaledObject {name}: {problem}" for problem in _scaled(each, cluster, pools, catalogue)]
    return Outcome(counted(objects=len(cluster.objects), settings=len(known)), tuple(found))


def known_settings() -> frozenset[str]:
    """Every environment variable that some part of the product reads: the settings of all its commands."""
    build()
    kinds, names = [BaseSettings], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        prefix = str(kind.model_config.get("env_prefix", ""))
        names |= {f"{prefix}{field}".upper() for field in kind.model_fields}
    return frozenset(names)


def unknown_settings(names: Iterable[str], known: frozenset[str]) -> Iterator[str]:
    for name in names:
        if name.startswith(_OURS) and name not in known:
            yield f"nothing reads the variable {name}"


def _twice(cluster: Cluster) -> Iterator[str]:
    seen = set()
    for each in cluster.objects:
        key = (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        if key in seen:
            yield f"{each['kind']} {each['metadata']['name']} is there twice"
        seen.add(key)


def _secrets(cluster: Cluster) -> Iterator[str]:
    for each in cluster.of("Secret"):
        yield f"Secret {each['metadata']['name']} is written out; secrets are named and never rendered"
    for each in cluster.of("ConfigMap"):
        for key in each.get("data", {}):
            if any(word in key.upper() for word in _SECRET):
                yield f"ConfigMap {each['metadata']['name']} has {key}, which belongs into a Secret"


def _selectors(cluster: Cluster) -> Iterator[str]:
    for each in cluster.of(*_SELECTING):
        wanted = each["spec"][_SELECTING[each["kind"]]]
        pods = cluster.pods(wanted if each["kind"] == "Service" else wanted.get("matchLabels", {}))
        name = f"{each['kind']} {each['metadata']['name']}"
        if not pods:
            yield f"{name} selects no pod"
        asked = [endpoint.get("port") for endpoint in each["spec"].get("podMetricsEndpoints", ())]
        asked += [port["targetPort"] for port in each["spec"].get("ports", ()) if "targetPort" in port]
        there = {port["name"] for pod in pods for run in pod["spec"]["containers"] for port in run.get("ports", ())}
        yield from (f"{name} asks for the port {port}, which its pods have not" for port in asked if port not in there)


def _accounts(cluster: Cluster) -> Iterator[str]:
    for each in cluster.of("RoleBinding"):
        name = f"RoleBinding {each['metadata']['name']}"
        if each["roleRef"]["name"] not in cluster.names(each["roleRef"]["kind"]):
            yield f"{name} is of a role that is not there: {each['roleRef']['name']}"
        for subject in each["subjects"]:
            if subject["name"] not in cluster.names(subject["kind"]):
                yield f"{name} is for a {subject['kind']} that is not there: {subject['name']}"


def _deployment(each: Object, cluster: Cluster, known: frozenset[str]) -> Iterator[str]:
    spec, labels = each["spec"]["template"]["spec"], each["spec"]["template"]["metadata"]["labels"]
    if not each["spec"]["selector"]["matchLabels"].items() <= labels.items():
        yield "its selector is not among the labels of its pods"
    if spec.get("serviceAccountName") not in cluster.names("ServiceAccount"):
        yield f"there is no ServiceAccount {spec.get('serviceAccountName')}"
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for run in spec["containers"]:
        yield from _container(run, set(volumes))
        yield from _read_settings(run, cluster, known)
    maps = [volume["configMap"]["name"] for volume in volumes.values() if "configMap" in volume]
    missing = [name for name in maps if name.startswith("kiln-") and name not in cluster.names("ConfigMap")]
    yield from (f"there is no ConfigMap {name}" for name in missing)


def _container(run: Object, volumes: set[str]) -> Iterator[str]:
    ports = {port["name"] for port in run.get("ports", ())}
    for mount in run.get("volumeMounts", ()):
        if mount["name"] not in volumes:
            yield f"{mount['mountPath']} is mounted from {mount['name']}, which is no volume of the pod"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        port = run.get(probe, {}).get("httpGet", {}).get("port")
        if port not in ports:
            yield f"its {probe} asks at {port}, which is no port of the container"


def _read_settings(run: Object, cluster: Cluster, known: frozenset[str]) -> Iterator[str]:
    for variable in run.get("env", ()):
        if any(word in variable["name"] for word in _SECRET) and "value" in variable:
            yield f"{variable['name']} is written out; name its Secret"
    yield from unknown_settings([variable["name"] for variable in run.get("env", ())], known)
    there = {each["metadata"]["name"]: each for each in cluster.of("ConfigMap")}
    for name in [source["configMapRef"]["name"] for source in run.get("envFrom", ()) if "configMapRef" in source]:
        if name in there:
            yield from unknown_settings([key for key in there[name]["data"] if key not in _OTHERS], known)
        else:
            yield f"there is no ConfigMap {name}"


def _scaled(each: Object, cluster: Cluster, pools: Pools, catalogue: Catalogue) -> Iterator[str]:
    spec = each["spec"]
    if spec["scaleTargetRef"]["name"] not in cluster.names("Deployment"):
        yield f"it scales {spec['scaleTargetRef']['name']}, which is not there"
    topics = {topic.name for topic in catalogue.specs()}
    groups = {catalogue.gpu_group(pool) for pool in pools.pools}
    if len(spec["triggers"]) > 1 and "scalingModifiers" not in spec.get("advanced", {}):
        yield "several triggers give the highest of their values and not the sum; give a formula"
    for trigger in spec["triggers"]:
        said: dict[str, Any] = trigger["metadata"]
        reference = trigger.get("authenticationRef", {}).get("name")
        if reference is not None and reference not in cluster.names("TriggerAuthentication"):
            yield f"there is no TriggerAuthentication {reference}"
        if trigger["type"] == "kafka":
            if said.get("topic") not in topics:
                yield f"a trigger asks for the topic {said.get('topic')}, which the catalogue does not have"
            if said.get("consumerGroup") not in groups:
                yield f"a trigger asks for the group {said.get('consumerGroup')}, which is no pool's"
            if said.get("offsetResetPolicy") != "earliest":
                yield "a trigger does not count from the earliest offset, as consumers start"
            if said.get("excludePersistentLag", "false") != "false":
                yield "a trigger leaves out lag that stands, which with long jobs is all of it"
        if trigger["type"].startswith("external"):
            try:
                wish_of(said, pools.pools)
            except WishRefused as refused:
                yield str(refused)

"""The documents as a Helm chart: the same objects, with the values that change from cluster to cluster left open.

A value has the place that it has in pools.yaml. What else follows from pools.yaml is rendered into the templates, and
changes by rendering anew. The chart's schema refuses a value that no template reads, which Helm would pass over.
"""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from infra.render.container import DECLARED, SETTINGS
from infra.render.declared import Declared
from infra.render.gpu import COMPONENT
from infra.render.manifest import Manifest, to_yaml
from infra.render.names import SCALER
from schemas.kubernetes import FAR_HOST, IMAGE, LATEST, S3_URL

CHART = "promptkiln"
_NAMESPACE = "{{ .Release.Namespace }}"
# Pods read these at their start, so they are started anew when one changes. Some count replicas, too.
_READ = ".Values.cluster.kafka .Values.cluster.store"
_READ_BY_COUNTING = f"{_READ} .Values.pools"
_COUNTING = ("admission", "scaler")
STAMP_ANNOTATION = "promptkiln.dev/values"
_HOLE = re.compile(r"kiln__(\d+)__hole")


@dataclass(slots=True)
class _Holes:
    """Words in the place of values, which survive being written as YAML; then the expressions take their place."""

    expressions: list[str] = field(default_factory=list)

    def hole(self, expression: str) -> str:
        self.expressions.append(expression)
        return f"kiln__{len(self.expressions) - 1}__hole"

    def value(self, *path: str, kind: str = "quote") -> str:
        """Of `.Values` at `path`; by index, for the name of a pool may have a dash."""
        return self.hole(f"{{{{ index .Values {' '.join(json.dumps(part) for part in path)} | {kind} }}}}")

    def fill(self, text: str) -> str:
        """Braces that were there before stay as they are: alerts and dashboards have a template language, too."""
        kept = text.replace("{{", '{{ "{{" }}')
        return _HOLE.sub(lambda found: self.expressions[int(found[1])], kept)


def helm(declared: Declared, found: Mapping[str, list[Manifest]], version: str) -> dict[str, str]:
    """Files by their paths below the chart's folder. Without the namespace: Helm has its own."""
    files = {
        "Chart.yaml": to_yaml(
            [
                {
                    "apiVersion": "v2",
                    "name": CHART,
                    "description": "Prompt events in, pictures out: rendered by kiln infra render.",
                    "type": "application",
                    "version": version,
                    "appVersion": version,
                }
            ]
        ),
        "values.yaml": to_yaml([values(declared)]),
        "values.schema.json": json.dumps(_schema(declared), indent=1, sort_keys=True) + "\n",
    }
    files["templates/refused.yaml"] = "".join(_refused(name) for name, _ in declared.by_name())
    for path, documents in found.items():
        holes = _Holes()
        opened = [_open(declared, document, holes) for document in documents if document["kind"] != "Namespace"]
        if opened:
            files[f"templates/{path}"] = holes.fill(to_yaml(opened))
    return files


def values(declared: Declared) -> dict[str, Any]:
    cluster = declared.cluster
    return {
        "cluster": {
            "images": {"services": cluster.images.services, "gpu_consumer": cluster.images.gpu_consumer},
            "kafka": {"bootstrap_servers": cluster.kafka.bootstrap_servers},
            "store": {"url": cluster.store.url},
            "admission": {"replicas": cluster.admission.replicas},
            "gate": {"replicas": cluster.gate.replicas},
        },
        "pools": {
            name: {"replicas_min": pool.replicas_min, "replicas_max": pool.replicas_max}
            for name, pool in declared.by_name()
        },
    }


def _open(declared: Declared, document: Manifest, holes: _Holes) -> Manifest:
    made = deepcopy(document)
    namespace = declared.cluster.namespace
    if made["metadata"]["namespace"] == namespace:
        made["metadata"]["namespace"] = holes.hole(_NAMESPACE)
    for subject in made.get("subjects", ()):
        subject["namespace"] = holes.hole(_NAMESPACE)
    match made["kind"]:
        case "Deployment":
            _open_deployment(made, holes)
        case "ScaledObject":
            _open_scaled(made, namespace, holes)
        case "KafkaTopic":
            # Strimzi deletes a topic with its object: all that was asked for would go with the release.
            made["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
        case "ConfigMap" if made["metadata"]["name"] == SETTINGS:
            made["data"]["KAFKA_BOOTSTRAP_SERVERS"] = holes.value("cluster", "kafka", "bootstrap_servers")
            made["data"]["KILN_STORE_URL"] = holes.value("cluster", "store", "url")
        case "ConfigMap" if made["metadata"]["name"] == DECLARED:
            made["data"]["pools.yaml"] = _open_pools(declared, holes)
    return made


def _open_pools(declared: Declared, holes: _Holes) -> str:
    """pools.yaml with the chart's values in it: admission places work by the replicas that there may really be."""

    def put(body: dict[str, Any], given: dict[str, Any], *path: str) -> dict[str, Any]:
        for key, value in given.items():
            if isinstance(value, dict):
                put(body.setdefault(key, {}), value, *path, key)
            else:
                body[key] = holes.value(*path, key, kind="int" if isinstance(value, int) else "quote")
        return body

    return to_yaml([put(declared.pools_body(), values(declared))])


def _refused(pool: str) -> str:
    """A schema compares no two values."""
    least, most = (f'(index .Values "pools" "{pool}" "replicas_{end}" | int)' for end in ("min", "max"))
    sentence = f"pools.{pool}.replicas_min is above replicas_max; lower it"
    return f'{{{{- if gt {least} {most} }}}}{{{{ fail "{sentence}" }}}}{{{{- end }}}}\n'


def _open_deployment(made: Manifest, holes: _Holes) -> None:
    component = made["metadata"]["labels"]["app.kubernetes.io/component"]
    template = made["spec"]["template"]
    image = "gpu_consumer" if component == COMPONENT else "services"
    template["spec"]["containers"][0]["image"] = holes.value("cluster", "images", image)
    read = _READ_BY_COUNTING if component in _COUNTING else _READ
    template["metadata"]["annotations"][STAMP_ANNOTATION] = holes.hole(
        f'"{{{{ list {read} | toJson | sha256sum | trunc 16 }}}}"'
    )
    if component in ("admission", "gate"):
        made["spec"]["replicas"] = holes.value("cluster", component, "replicas", kind="int")


def _open_scaled(made: Manifest, namespace: str, holes: _Holes) -> None:
    pool, spec = made["metadata"]["labels"]["promptkiln.dev/pool"], made["spec"]
    spec["minReplicaCount"] = holes.value("pools", pool, "replicas_min", kind="int")
    spec["maxReplicaCount"] = holes.value("pools", pool, "replicas_max", kind="int")
    for trigger in spec["triggers"]:
        metadata = trigger["metadata"]
        if "bootstrapServers" in metadata:
            metadata["bootstrapServers"] = holes.value("cluster", "kafka", "bootstrap_servers")
        own = f"{SCALER}.{namespace}.svc:"
        if metadata.get("scalerAddress", "").startswith(own):
            metadata["scalerAddress"] = metadata["scalerAddress"].replace(
                own, f"{SCALER}.{holes.hole(_NAMESPACE)}.svc:"
            )


def _schema(declared: Declared) -> dict[str, Any]:
    """What a value may be, so that what was rendered around it stays true: ports of policies, mounts, caps of KEDA."""
    image = {"type": "string", "pattern": f"^{IMAGE}$", "not": {"pattern": LATEST}}
    ports = sorted({each.rpartition(":")[2] for each in declared.cluster.kafka.bootstrap_servers.split(",")})
    address = f"{FAR_HOST}:({'|'.join(ports)})"
    url = declared.cluster.store.url
    store = {"const": url} if declared.cluster.store.claim else {"type": "string", "pattern": f"^{S3_URL}$"}
    home = declared.catalogue.requests_partitions
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_closed(
            cluster=_closed(
                images=_closed(services=image, gpu_consumer=image),
                kafka=_closed(bootstrap_servers={"type": "string", "pattern": f"^{address}(,{address})*$"}),
                store=_closed(url=store),
                admission=_closed(replicas=_count(1, home)),
                gate=_closed(replicas=_count(1, 2048)),
            ),
            pools=_closed(
                **{
                    name: _closed(
                        replicas_min=_count(0, pool.partitions // 2),
                        replicas_max=_count(max(1, pool.scaling.fallback_replicas or 0), pool.partitions // 2),
                    )
                    for name, pool in declared.by_name()
                }
            ),
            **{"global": {"type": "object"}},  # Helm's own
        ),
    }


def _closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _count(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}

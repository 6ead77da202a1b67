"""What the Prometheus operator and Grafana's sidecar pick up: monitors of pods, alert rules, dashboards."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from infra.render.container import HEALTH
from infra.render.declared import Declared
from infra.render.manifest import Manifest, labels_of, manifest, object_name, selector, to_yaml

OPERATORS = ("PodMonitor", "PrometheusRule")  # what no API server knows without the Prometheus operator
_API = "monitoring.coreos.com/v1"
_RULES_BYTES_MAX = 256 << 10


def pod_monitor(declared: Declared, name: str, component: str, pool: str | None) -> Manifest:
    """Scraped by pod, not by Service: a GPU consumer has none, and each tells of its own card.

    What a GPU consumer tells has its `pool`; here what Prometheus itself says of the scrape gets it, as `up`.
    """
    monitoring = declared.cluster.monitoring
    endpoint: dict[str, Any] = {
        "port": HEALTH,
        "path": "/metrics",
        "interval": f"{monitoring.scrape_seconds}s",
        "honorLabels": True,  # admission's own `pool` is the one that it speaks of
    }
    if pool is not None:
        endpoint["relabelings"] = [{"targetLabel": "pool", "replacement": pool}]
    return manifest(
        _API,
        "PodMonitor",
        name,
        declared.cluster.namespace,
        labels_of(component, pool) | monitoring.labels,
        spec={
            "selector": {"matchLabels": selector(component, pool)},
            "podMetricsEndpoints": [endpoint],
        },
    )


def alert_rules(declared: Declared, groups: list[dict[str, Any]]) -> Iterator[Manifest]:
    """In several objects where they are long: the operator puts each into a ConfigMap, and refuses what is above half
    of the bytes that one holds."""
    parts: list[list[dict[str, Any]]] = []
    bytes_left = 0
    for group in groups:
        size = len(json.dumps(group).encode())
        if size > bytes_left:
            parts.append([])
            bytes_left = _RULES_BYTES_MAX
        parts[-1].append(group)
        bytes_left -= size
    for number, part in enumerate(parts):
        yield manifest(
            _API,
            "PrometheusRule",
            f"kiln-alerts-{number}" if number else "kiln-alerts",
            declared.cluster.namespace,
            labels_of("alerts") | declared.cluster.monitoring.labels,
            spec={"groups": part},
        )


def dashboard_maps(declared: Declared, dashboards: Mapping[str, dict[str, Any]]) -> Iterator[Manifest]:
    labels = labels_of("dashboards") | declared.cluster.monitoring.dashboard_labels
    for name, dashboard in sorted(dashboards.items()):
        text = json.dumps(dashboard, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        yield manifest(
            "v1",
            "ConfigMap",
            object_name(f"kiln-dashboard-{name}"),
            declared.cluster.namespace,
            labels,
            data={f"{name}.json": text},
        )


def known(declared: Declared, found: Mapping[str, list[Manifest]]) -> Mapping[str, list[Manifest]]:
    """Those documents that the declared cluster knows."""
    if declared.cluster.monitoring.operator:
        return found
    kept = {path: [each for each in made if each["kind"] not in OPERATORS] for path, made in found.items()}
    return {path: made for path, made in kept.items() if made}


def plain(found: Mapping[str, list[Manifest]]) -> dict[str, str]:
    """Rules and dashboards as files, for a Prometheus and a Grafana without operator and sidecar."""
    files: dict[str, str] = {}
    groups: list[dict[str, Any]] = []
    for document in (each for documents in found.values() for each in documents):
        if document["kind"] == "PrometheusRule":
            groups += document["spec"]["groups"]
        elif document["metadata"]["labels"].get("app.kubernetes.io/component") == "dashboards":
            files |= {f"grafana/{name}": text for name, text in document["data"].items()}
    files["prometheus/alerts.yaml"] = to_yaml([{"groups": groups}])
    return files

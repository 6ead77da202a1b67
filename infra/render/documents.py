"""Everything that is rendered, by the file of the Kustomize base that it stands in. Pure."""

from collections.abc import Mapping

from infra.observe.alerts import rule_groups
from infra.observe.dashboards import dashboards
from infra.observe.settings import AlertSettings
from infra.render.declared import Declared
from infra.render.gpu import COMPONENT, gpu_deployment
from infra.render.manifest import Manifest, gpu_name
from infra.render.monitors import alert_rules, dashboard_maps, pod_monitor
from infra.render.names import ADMISSION, GATE, GRPC, SCALER
from infra.render.policies import disruption_budget, network_policy
from infra.render.rbac import pool_accounts
from infra.render.scaled import authentication, scaled_object
from infra.render.services import admission, gate, scaler
from infra.render.settings_maps import namespace, settings_maps
from infra.render.strimzi import topics, users
from schemas.pools import Pool


def documents(declared: Declared, alerts: AlertSettings | None = None) -> Mapping[str, list[Manifest]]:
    """Raises CatalogueError, in one sentence that names the field and the cure, where what is declared would not work
    as it says; CommandError where the extra `infra` is not installed."""
    proof = authentication(declared)
    found = {
        "namespace.yaml": [namespace(declared)],
        "settings.yaml": list(settings_maps(declared)),
        "keda.yaml": [proof] if proof else [],
        "topics.yaml": list(topics(declared)),
        "users.yaml": list(users(declared)),
        "admission.yaml": _admission(declared),
        "gate.yaml": _gate(declared),
        "scaler.yaml": _scaler(declared),
        "alerts.yaml": list(alert_rules(declared, rule_groups(declared.pools, declared.catalogue, alerts))),
        "dashboards.yaml": list(dashboard_maps(declared, dashboards())),
    }
    found |= {f"pool-{name}.yaml": _pool(declared, name, pool) for name, pool in declared.by_name()}
    return {path: each for path, each in sorted(found.items()) if each}


def _pool(declared: Declared, name: str, pool: Pool) -> list[Manifest]:
    own = gpu_name(name)
    return [
        *pool_accounts(declared, name),
        gpu_deployment(declared, name, pool),
        scaled_object(declared, name, pool),
        disruption_budget(declared, own, COMPONENT, name),
        network_policy(declared, own, COMPONENT, name, stores=True, asks_kubernetes=True),
        pod_monitor(declared, own, COMPONENT, name),
    ]


def _admission(declared: Declared) -> list[Manifest]:
    return [
        *admission(declared),
        disruption_budget(declared, ADMISSION, "admission", None),
        network_policy(declared, ADMISSION, "admission", None),
        pod_monitor(declared, ADMISSION, "admission", None),
    ]


def _gate(declared: Declared) -> list[Manifest]:
    made = list(gate(declared))
    if not made:
        return []
    return [
        *made,
        disruption_budget(declared, GATE, "gate", None),
        network_policy(declared, GATE, "gate", None),
        pod_monitor(declared, GATE, "gate", None),
    ]


def _scaler(declared: Declared) -> list[Manifest]:
    """Without a budget: there is one, and a node must be drained all the same."""
    made = list(scaler(declared))
    if not made:
        return []
    return [
        *made,
        network_policy(declared, SCALER, "scaler", None, asked_by=(declared.cluster.scaler.keda_namespace, GRPC)),
        pod_monitor(declared, SCALER, "scaler", None),
    ]

"""Each check of manifests finds what it is for: a rendered object is broken in one place, and nothing else is found."""

from pathlib import Path

import pytest

from schemas.pools import load_pools
from schemas.topics import Catalogue, TopicSettings
from tests.golang import GoMissing
from tests.infra.breaking import broken, put, renamed
from tests.infra.documented import DOCS, documented
from tests.infra.manifests import charts, manifests, overlays
from tests.infra.outcome import Outcome
from tests.infra.references import references
from tests.infra.rendered import DECLARED, Rendered
from tests.infra.tools import ToolMissing

_POD = ("spec", "template", "spec")
_KAFKA = ("spec", "triggers", 0, "metadata")
_LAG, _PUSH = "kiln-gpu-default", "kiln-gpu-slices"
_ENDPOINT = ("spec", "podMetricsEndpoints", 0)

STRICT = {
    "an unknown field of a core kind": ("Deployment", None, put(*_POD, "restartPolice", value="Always"), "Police"),
    "a field of the wrong type": ("Deployment", None, put("spec", "replicas", value="two"), "replicas"),
    "a version that is not served": ("Deployment", None, put("apiVersion", value="apps/v1beta1"), "apps/v1beta1"),
    "a kind nobody knows": ("ScaledObject", None, put("kind", value="ScaleObject"), "kind and version"),
    "an unknown field of a ScaledObject": (
        "ScaledObject", None, renamed("spec", "cooldownPeriod", to="coolDown"), "coolDown"),
    "a trigger's unknown key": ("ScaledObject", _LAG, put(*_KAFKA, "lagTreshold", value="5"), 'key "lagTreshold"'),
    "a trigger's missing key": ("ScaledObject", _LAG, renamed(*_KAFKA, "consumerGroup", to="group"), "consumerGroup"),
    "a trigger's value that KEDA does not know": (
        "ScaledObject", _LAG, put(*_KAFKA, "offsetResetPolicy", value="first"), "may be latest, earliest"),
    "a trigger without the scaler's address": ("ScaledObject", _PUSH, put(*_KAFKA, "scalerAddress", value=""), "empty"),
    "a trigger of no type": ("ScaledObject", _LAG, put("spec", "triggers", 0, "type", value="kafkaa"), "no such type"),
    "a formula of a trigger that is not there": (
        "ScaledObject", _LAG, put("spec", "triggers", 0, "name", value="interactiv"), "interactive"),
    "more replicas at least than at most": ("ScaledObject", None, put("spec", "minReplicaCount", value=99), "99"),
    "a misspelt field of a PodMonitor": (
        "PodMonitor", None, renamed(*_ENDPOINT, "interval", to="intervall"), "intervall"),
    "a misspelt field of a rule": (
        "PrometheusRule", None, put("spec", "groups", 0, "rules", 0, "four", value="5m"), "four"),
    "an unknown field of a topic": ("KafkaTopic", None, renamed("spec", "partitions", to="partition"), "partition"),
    "a topic's number that is none": ("KafkaTopic", None, put("spec", "replicas", value="three"), "replicas"),
    "an unknown field of a user": ("KafkaUser", None, put("spec", "authorisation", value={}), "authorisation"),
}  # fmt: skip

LOST = {
    "a service account": ("Deployment", None, put(*_POD, "serviceAccountName", value="nobody"), "Account nobody"),
    "a volume": ("Deployment", None, put(*_POD, "containers", 0, "volumeMounts", 0, "name", value="x"), "no volume"),
    "a probe's port": (
        "Deployment", None, put(*_POD, "containers", 0, "livenessProbe", "httpGet", "port", value="web"), "web"),
    "labels": ("Deployment", None, put("spec", "selector", "matchLabels", value={"a": "b"}), "its selector"),
    "a variable": (
        "Deployment", None, lambda found: found["spec"]["template"]["spec"]["containers"][0]["env"].append(
            {"name": "KILN_GPU_POLL", "value": "1"}), "nothing reads the variable KILN_GPU_POLL"),
    "a secret in the open": (
        "Deployment", None, lambda found: found["spec"]["template"]["spec"]["containers"][0]["env"].append(
            {"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}), "name its Secret"),
    "a setting for all": ("ConfigMap", "kiln-settings", put("data", "KILN_STOR_URL", value="s3://x"), "KILN_STOR_URL"),
    "a written secret": ("ConfigMap", "kiln-settings", put("kind", value="Secret"), "is written out"),
    "the pods of a budget": (
        "PodDisruptionBudget", None, put("spec", "selector", "matchLabels", value={"a": "b"}), "selects no pod"),
    "a monitor's port": ("PodMonitor", None, put(*_ENDPOINT, "port", value="metrics"), "the port metrics"),
    "a role": ("RoleBinding", None, put("roleRef", "name", value="other"), "a role that is not there"),
    "what is scaled": ("ScaledObject", None, put("spec", "scaleTargetRef", "name", value="other"), "scales other"),
    "a topic": ("ScaledObject", _LAG, put(*_KAFKA, "topic", value="kiln.works"), "kiln.works"),
    "every topic": (
        "ScaledObject", _LAG, lambda found: found["spec"]["triggers"][0]["metadata"].pop("topic"), "the topic None"),
    "a group": ("ScaledObject", _LAG, put(*_KAFKA, "consumerGroup", value="kiln.cpu"), "kiln.cpu"),
    "where to start (Case KEDA-16)": (
        "ScaledObject", _LAG, put(*_KAFKA, "offsetResetPolicy", value="latest"), "earliest"),
    "long jobs (Case KEDA-10)": (
        "ScaledObject", _LAG, put(*_KAFKA, "excludePersistentLag", value="true"), "lag that stands"),
    "the sum": ("ScaledObject", _LAG, lambda found: found["spec"]["advanced"].pop("scalingModifiers"), "the highest"),
    "the pool of the scaler": ("ScaledObject", _PUSH, put(*_KAFKA, "pool", value="slice"), "'slice'"),
}  # fmt: skip


@pytest.fixture(scope="module")
def go() -> None:
    """Without Go these checks are skipped, and so are their tests."""
    try:
        manifests([], Path())
    except (GoMissing, ToolMissing) as missing:
        pytest.skip(str(missing))


def _references(rendered: Rendered) -> Outcome:
    pools = load_pools(DECLARED["examples"])
    return references(rendered, pools, Catalogue(TopicSettings(), pools))


@pytest.mark.usefixtures("go")
@pytest.mark.parametrize("what", STRICT)
def test_an_invalid_manifest_is_found(what: str, rendered: Rendered) -> None:
    kind, name, change, wanted = STRICT[what]
    file = broken(rendered, kind, change, name=name)
    found = manifests([file], rendered.folder).findings
    assert any(wanted in sentence for sentence in found), found
    assert all(sentence.startswith("kustomize/base/") for sentence in found)


@pytest.mark.usefixtures("go")
def test_what_is_rendered_is_valid(pristine: Rendered) -> None:
    assert manifests(pristine.files(), pristine.folder).findings == ()


@pytest.mark.usefixtures("go")
def test_nothing_looked_at_is_found() -> None:
    assert manifests([], Path("nowhere")).findings == ("nowhere has no objects",)


@pytest.mark.parametrize("what", LOST)
def test_a_name_that_leads_nowhere_is_found(what: str, rendered: Rendered) -> None:
    kind, name, change, wanted = LOST[what]
    before = set(_references(rendered).findings)
    broken(rendered, kind, change, name=name)
    found = set(_references(rendered).findings) - before
    assert any(wanted in sentence for sentence in found), found


def test_two_of_one_name_are_found(rendered: Rendered) -> None:
    broken(rendered, "PodMonitor", put("metadata", "name", value="kiln-gpu-slices"), name="kiln-gpu-default")
    assert "PodMonitor kiln-gpu-slices is there twice" in _references(rendered).findings


def test_an_overlay_that_cannot_be_built_is_found(rendered: Rendered) -> None:
    broken_base = rendered.base / "kustomization.yaml"
    broken_base.write_text(broken_base.read_text().replace("admission.yaml", "admision.yaml"))
    try:
        outcome, _ = overlays(rendered, "broken")
    except ToolMissing as missing:
        pytest.skip(str(missing))
    assert any("admision.yaml" in sentence for sentence in outcome.findings), outcome.findings


@pytest.mark.usefixtures("go")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [("{{ .Values.nobody.knows }}", "nobody"), ("{{ if }}", "missing value"), ("{{ nofunc 1 }}", "nofunc")],
)
def test_a_chart_that_cannot_be_rendered_is_found(text: str, wanted: str, rendered: Rendered) -> None:
    (chart,) = rendered.charts()
    (chart / "templates" / "broken.yaml").write_text(f"a: {text}\n")
    outcome, made = charts(rendered, "broken")
    assert any(wanted in sentence for sentence in outcome.findings), outcome.findings
    assert made == []


@pytest.mark.usefixtures("go")
def test_a_chart_that_passes_misspelt_values_over_is_found(rendered: Rendered) -> None:
    (chart,) = rendered.charts()
    (chart / "values.schema.json").unlink()
    outcome, _ = charts(rendered, "broken")
    assert "promptkiln: the value imagesx is passed over in silence" in outcome.findings
    assert "promptkiln: the value replicas_maxx is passed over in silence" in outcome.findings


@pytest.mark.usefixtures("go")
def test_a_chart_that_tells_admission_another_number_of_replicas_is_found(rendered: Rendered) -> None:
    (chart,) = rendered.charts()
    settings = chart / "templates" / "settings.yaml"
    said = '{{ index .Values "pools" "default" "replicas_max" | int }}'
    assert said in settings.read_text()
    settings.write_text(settings.read_text().replace(said, "8"))
    outcome, _ = charts(rendered, "broken")
    assert "KEDA is told (1, 7) of the replicas of default, and admission (1, 8)" in outcome.findings


@pytest.mark.usefixtures("go")
def test_a_chart_that_takes_more_replicas_at_least_than_at_most_is_found(rendered: Rendered) -> None:
    (chart,) = rendered.charts()
    (chart / "templates" / "refused.yaml").unlink()
    outcome, _ = charts(rendered, "broken")
    assert "promptkiln: pools.default.replicas_min above replicas_max is taken" in outcome.findings


def test_an_overlay_that_tells_admission_another_number_of_replicas_is_found(rendered: Rendered) -> None:
    (overlay,) = (each for each in rendered.overlays() if each.name == "development")
    said = overlay / "kustomization.yaml"
    assert "replicas_max: 1\n" in said.read_text()
    said.write_text(said.read_text().replace("replicas_max: 1\n", "replicas_max: 2\n"))
    try:
        outcome, _ = overlays(rendered, "broken")
    except ToolMissing as missing:
        pytest.skip(str(missing))
    assert any("KEDA is told (0, 1) of the replicas of default" in each for each in outcome.findings), outcome.findings


@pytest.mark.usefixtures("go")
@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("kind: KafkaNodePool", "kind: KafkaNodepool", "nothing here knows"),
        ("roles: [controller, broker]", "roles: [controller, brokers]", "brokers"),
        ("entityOperator:", "entityOperators:", "entityOperators"),
        ("vram_bytes: 150754820096", "vram_bytes: lots", "vram_bytes"),
    ],
)
def test_bad_yaml_in_docs_is_found(before: str, after: str, wanted: str, tmp_path: Path) -> None:
    page = (DOCS / "kubernetes.md").read_text()
    assert before in page
    (tmp_path / "kubernetes.md").write_text(page.replace(before, after))
    found = documented(tmp_path).findings
    assert any(wanted in sentence for sentence in found), found

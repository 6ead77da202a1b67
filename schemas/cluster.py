"""The Kubernetes cluster that pools run on, as the block `cluster` of infra/pools.yaml declares it.

A secret is never written here: only the name of the Secret that has it.
"""

import json
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from schemas.kubernetes import (
    Address,
    Addresses,
    Cpu,
    FileName,
    Folder,
    HttpUrl,
    Image,
    KeyOfTenant,
    LabelKey,
    Labels,
    Name,
    Named,
    Region,
    Size,
    StoreUrl,
)


def _text(value: object) -> str:
    """YAML reads 2 as a number and true as a truth; a variable has the text of it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise ValueError(
        f"YAML reads it as {'nothing' if value is None else type(value).__name__}; write the text of it in quotes"
    )


def _others(labels: Labels) -> Labels:
    """By these the renderer, the chart and `kubectl get -l` find what belongs together."""
    for key in labels:
        if key in _OWN_LABELS or key.startswith("promptkiln.dev/"):
            raise ValueError(f"{key} says already what an object of ours is; take it out")
    return labels


_OWN_LABELS = {f"app.kubernetes.io/{each}" for each in ("name", "component", "managed-by")}
MoreLabels = Annotated[Labels, AfterValidator(_others)]
EnvironmentValue = Annotated[str, BeforeValidator(_text)]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Images(_Block):
    services: Image = Field(
        default="promptkiln:0.1.0", description="Of admission, the gate and the scaler, with its tag or digest."
    )
    gpu_consumer: Image = Field(default="promptkiln-gpu:0.1.0", description="Of GPU consumers, likewise with a tag.")
    pull_secret: Named | None = Field(default=None, description="Name of the Secret by which the registry is asked.")


class KafkaCluster(_Block):
    bootstrap_servers: Addresses = Field(
        default="kiln-kafka-bootstrap.promptkiln.svc:9093",
        description="host:port, by commas; a Service with its namespace, since KEDA asks from one of its own",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="SASL_SSL", description="SASL proves a password by SCRAM-SHA-512, SSL alone a certificate."
    )
    ca_secret: Named | None = Field(
        default=None,
        description="Name of the Secret whose ca.crt signs the brokers. Absent: the one that Strimzi makes for its "
        "cluster, where there is one; else the system's authorities.",
    )
    strimzi_cluster: Name | None = Field(
        default="kiln", description="Whose operators make topics and users. null: neither is rendered."
    )
    namespace: Name | None = Field(
        default=None, description="Where Strimzi looks for topics and users. Absent: the deployment's own."
    )
    broker_ports: list[Annotated[int, Field(ge=1, le=65_535)]] = Field(
        default=[], description="At which brokers answer, where those are others than bootstrap's: policies open them."
    )
    replicas: Annotated[int, Field(ge=1, le=16)] = Field(default=3, description="Copies of each partition.")

    @property
    def encrypted(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def by_password(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def authority(self) -> str | None:
        """Name of the Secret whose ca.crt signs the brokers."""
        if not self.encrypted:
            return None
        made = f"{self.strimzi_cluster}-cluster-ca-cert" if self.strimzi_cluster else None
        return self.ca_secret or made


class StorePlace(_Block):
    url: StoreUrl = "s3://promptkiln/artifacts"
    endpoint_url: HttpUrl | None = None
    region: Region | None = None
    addressing_style: Literal["path", "virtual", "auto"] = "auto"
    secret: Named | None = Field(
        default=None,
        description="Name of the Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Absent: the pods' own "
        "identity, by `service_account_annotations`.",
    )
    claim: Named | None = Field(default=None, description="The volume claim of a file:// store, shared by all pods.")

    @model_validator(mode="after")
    def _a_folder_outlives_its_pod(self) -> Self:
        if self.url.startswith("file:") and self.claim is None:
            raise ValueError("a file:// store would go with its pod; give `claim`, or an s3:// url")
        if not self.url.startswith("file:") and self.claim is not None:
            raise ValueError("claim would not be used beside an s3:// url; take it out")
        if self.url.startswith("file:") and self.secret is not None:
            raise ValueError("secret would not be used beside a file:// url; take it out")
        return self


class Models(_Block):
    """Where a GPU consumer finds its models. Neither: in its own image, at the same path."""

    claim: Named | None = Field(default=None, description="A volume claim, mounted to be read only.")
    image: Image | None = Field(default=None, description="An image whose files are the folder: Kubernetes 1.35.")
    path: Folder = "/models"

    @model_validator(mode="after")
    def _from_one_place(self) -> Self:
        if self.claim and self.image:
            raise ValueError("models come from a claim or from an image; take one out")
        return self


class Resources(_Block):
    cpu: Cpu = "1"
    memory: Size = "1Gi"
    scratch: Size = Field(default="1Gi", description="In /tmp, of the node's disk; a pod that fills more is evicted.")
    priority_class: Named | None = Field(
        default=None, description="Name of the PriorityClass that says who yields where nodes are short."
    )


class SecretKey(_Block):
    secret: Named = Field(description="Name of the Secret.")
    key: FileName = Field(description="The key in it.")


class Replicated(Resources):
    replicas: Annotated[int, Field(ge=1, le=2048)] = 2


class Gate(Replicated):
    cpu: Cpu = "250m"
    memory: Size = "256Mi"


class Admission(Replicated):
    """No more replicas than requests has partitions: the others would idle."""

    signing_keys: dict[KeyOfTenant, SecretKey] = Field(
        default={}, description="`TENANT/KEY ID` -> where its secret is."
    )
    terms: Named | None = Field(
        default=None, description="Name of the ConfigMap whose terms.txt no prompt may hold; of the policy `list`."
    )


class GpuHost(Resources):
    """What a GPU consumer has of its node beside the card."""

    cpu: Cpu = "4"
    memory: Size = "16Gi"
    scratch: Size = Field(default="32Gi", description="In /tmp, where compiled kernels and engines are kept, too.")
    runtime_class: Named | None = Field(
        default=None, description="Name of the RuntimeClass that gives containers a card, where the default does not."
    )


class Spot(_Block):
    """Of pools that are `spot`."""

    node_selector: Labels = Field(
        default={"karpenter.sh/capacity-type": "spot"}, description="How such nodes are labelled here."
    )
    taint: LabelKey | None = Field(default=None, description="The key of their taint, where they have one.")
    notice_seconds: Annotated[int, Field(ge=20, le=3600)] = Field(
        default=30, description="From the notice until the node is gone: the whole grace of a pod."
    )


class Monitoring(_Block):
    operator: bool = Field(
        default=True,
        description="Whether its operator is there. If not, PodMonitors and PrometheusRules are no objects.",
    )
    labels: MoreLabels = Field(default={}, description="Of PodMonitors and PrometheusRules: what Prometheus selects.")
    dashboard_labels: MoreLabels = Field(
        default={"grafana_dashboard": "1"}, description="What Grafana's sidecar selects."
    )
    namespace: Name = Field(default="monitoring", description="Where Prometheus is: it alone may scrape.")
    scrape_seconds: Annotated[int, Field(ge=1, le=3600)] = 15


class Scaler(Resources):
    cpu: Cpu = "250m"
    memory: Size = "256Mi"
    address: Address | None = Field(
        default=None, description="host:port at which KEDA asks. Absent: the Service that is rendered."
    )
    keda_namespace: Name = Field(default="keda", description="Where KEDA is: it alone may ask.")


class Cluster(_Block):
    """Where a deployment runs. Everything has a default."""

    namespace: Name = "promptkiln"
    images: Images = Images()
    kafka: KafkaCluster = KafkaCluster()
    store: StorePlace = StorePlace()
    models: Models = Models()
    admission: Admission = Admission()
    gate: Gate = Gate()
    scaler: Scaler = Scaler()
    gpu_consumer: GpuHost = GpuHost()
    spot: Spot = Spot()
    monitoring: Monitoring = Monitoring()
    service_account_annotations: dict[LabelKey, str] = Field(
        default={}, description="Of every service account: how a cloud gives its pods an identity."
    )
    environment: dict[EnvironmentName, EnvironmentValue] = Field(
        default={}, description="More settings of the services, by the names of their environment variables."
    )

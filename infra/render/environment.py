"""The settings of the services as environment variables: what all share, and what proves who a service is."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource

from admission.settings import AdmissionLimits
from gpu_consumer.gpu.settings import GpuTelemetrySettings
from gpu_consumer.settings import GpuConsumerSettings
from gpu_consumer.store.base import StoreSettings
from infra.render.declared import Declared
from infra.render.manifest import object_name
from infra.scaler.settings import ScalerSettings
from schemas.cluster import Cluster
from schemas.errors import CatalogueError, CommandError
from schemas.settings import read_settings
from schemas.topics import TopicSettings
from streams.gate.settings import GateSettings
from streams.kafka.settings import KafkaSettings
from streams.logs import LogSettings
from streams.policies.listed import ListSettings
from streams.policies.loading import PolicySettings
from streams.settings import AdmissionServiceSettings
from streams.tracing_choice import TracingSettings

DECLARED_AT = "/etc/kiln/declared"
CONFIGS_AT = "/etc/kiln/configs"
AUTHORITY_AT = "/etc/kiln/authority"
CERTIFICATE_AT = "/etc/kiln/certificate"
SERVICES: tuple[type[BaseSettings], ...] = (
    AdmissionLimits,
    AdmissionServiceSettings,
    GateSettings,
    GpuConsumerSettings,
    GpuTelemetrySettings,
    KafkaSettings,
    ListSettings,
    LogSettings,
    PolicySettings,
    ScalerSettings,
    StoreSettings,
    TopicSettings,
    TracingSettings,
)
_DEFAULTS = {"KILN_LOG_FORMAT": "json"}  # a cluster's logs are read by machines first
# What follows from the pool or the container: given again for all, it would be overruled without a word.
OWNED = frozenset(
    {
        "KAFKA_SASL_MECHANISM",
        "KAFKA_SASL_PLAIN_USERNAME",
        "KAFKA_SSL_CAFILE",
        "KAFKA_SSL_CERTFILE",
        "KAFKA_SSL_KEYFILE",
        "KILN_ADMISSION_POLICY_LIST_FILE",
        "KILN_ADMISSION_SERVICE_HEALTH_HOST",
        "KILN_ADMISSION_SERVICE_HEALTH_PORT",
        "KILN_ADMISSION_SERVICE_SIGNING_KEYS",
        "KILN_ADMISSION_SERVICE_TOKENIZERS",
        "KILN_GATE_HEALTH_HOST",
        "KILN_GATE_HEALTH_PORT",
        "KILN_GPU_DEVICE",
        "KILN_GPU_DEVICE_MEMORY_BYTES",
        "KILN_GPU_ENGINE_START_SECONDS_MAX",
        "KILN_GPU_GRACE_SECONDS",
        "KILN_GPU_HEALTH_HOST",
        "KILN_GPU_HEALTH_PORT",
        "KILN_GPU_MODELS_DIR",
        "KILN_GPU_NAMESPACE",
        "KILN_GPU_POD_NAME",
        "KILN_GPU_POOL",
        "KILN_GPU_SERVICE_ACCOUNT_DIR",
        "KILN_SCALER_HEALTH_HOST",
        "KILN_SCALER_HEALTH_PORT",
        "KILN_SCALER_HOST",
        "KILN_SCALER_PORT",
        "KILN_STORE_ENDPOINT_URL",
        "KILN_STORE_REGION",
    }
)
TRACES_TO = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_OTHERS = re.compile(r"^(AWS|OTEL|PYTORCH|CUDA|NVIDIA)_")
_SECRET = re.compile(r"PASSWORD|SECRET|TOKEN$|CREDENTIAL|ACCESS_KEY|OTLP_(TRACES_)?HEADERS$")  # a collector's key


def shared(declared: Declared) -> dict[str, str]:
    """The settings that every service of the deployment reads alike. Raises CatalogueError for one nobody reads."""
    cluster, topics = declared.cluster, declared.catalogue.settings
    made = {
        "HOME": "/tmp",  # noqa: S108 - the one folder of a pod that can be written
        "KAFKA_BOOTSTRAP_SERVERS": cluster.kafka.bootstrap_servers,
        "KAFKA_SECURITY_PROTOCOL": cluster.kafka.security_protocol,
        "KILN_CONFIGS": CONFIGS_AT,
        "KILN_POOLS": f"{DECLARED_AT}/pools.yaml",
        "KILN_TENANTS": f"{DECLARED_AT}/tenants.yaml",
        "KILN_STORE_URL": cluster.store.url,
        "KILN_STORE_ADDRESSING_STYLE": cluster.store.addressing_style,
        **{f"KILN_TOPICS_{name.upper()}": str(value) for name, value in topics.model_dump().items()},
    }
    if cluster.kafka.authority:
        made["KAFKA_SSL_CAFILE"] = f"{AUTHORITY_AT}/ca.crt"
    if cluster.kafka.security_protocol == "SSL":
        made |= {"KAFKA_SSL_CERTFILE": f"{CERTIFICATE_AT}/user.crt", "KAFKA_SSL_KEYFILE": f"{CERTIFICATE_AT}/user.key"}
    for name, value in (("ENDPOINT_URL", cluster.store.endpoint_url), ("REGION", cluster.store.region)):
        if value is not None:
            made[f"KILN_STORE_{name}"] = value
    return dict(sorted((_DEFAULTS | made | _more(cluster, made)).items()))


def user_of(declared: Declared, role: str) -> str:
    """The name of a role's principal in Kafka, and of the Secret that proves it."""
    return object_name(f"{declared.catalogue.settings.prefix}-{role.replace('/', '-')}")


def identity(declared: Declared, role: str) -> list[dict[str, Any]]:
    """Who a service is in Kafka, and how it proves that; nothing where nobody asks."""
    if not declared.cluster.kafka.by_password:
        return []
    user = user_of(declared, role)
    password = {"secretKeyRef": {"name": user, "key": "password"}}
    return [
        {"name": "KAFKA_SASL_MECHANISM", "value": "SCRAM-SHA-512"},
        {"name": "KAFKA_SASL_PLAIN_USERNAME", "value": user},
        {"name": "KAFKA_SASL_PLAIN_PASSWORD", "valueFrom": password},
    ]


def store_access(cluster: Cluster) -> list[dict[str, Any]]:
    if cluster.store.secret is None:
        return []
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": cluster.store.secret, "key": name}}} for name in names
    ]


def _more(cluster: Cluster, made: dict[str, str]) -> dict[str, str]:
    known = sorted(_known())
    for name in cluster.environment:
        where = f"cluster.environment.{name}"
        if _SECRET.search(name):
            raise CatalogueError(
                f"{where}: a secret is not written here; name its Secret in cluster.kafka or .store, or in an overlay "
                "of yours"
            )
        if name in made or name in OWNED or name.startswith("KILN_TOPICS_"):
            raise CatalogueError(f"{where}: it follows from the rest of pools.yaml or from KILN_TOPICS_; take it out")
        if name not in known and not _OTHERS.match(name):
            near = difflib.get_close_matches(name, known, 1)
            cure = f"did you mean {near[0]}" if near else "the README has a table of all prefixes"
            raise CatalogueError(f"{where}: no service reads it; {cure}")
    if cluster.environment.get("KILN_TRACES") == "otlp" and not any(name in cluster.environment for name in TRACES_TO):
        raise CatalogueError(
            f"cluster.environment.KILN_TRACES is otlp, and spans would go to the pod itself; set {TRACES_TO[0]}, too"
        )
    whole = {"KAFKA_BOOTSTRAP_SERVERS": cluster.kafka.bootstrap_servers} | cluster.environment
    for kind in SERVICES:
        _read_as_in_a_pod(kind, whole)
    return dict(cluster.environment)


def _read_as_in_a_pod(kind: type[BaseSettings], environment: Mapping[str, str]) -> None:
    """Raises CatalogueError where a service would refuse to start with it; what the renderer's own has is not read."""

    class InAPod(kind):  # type: ignore[misc, valid-type]
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: PydanticBaseSettingsSource, **__: PydanticBaseSettingsSource
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            source = EnvSettingsSource(settings_cls)
            source.env_vars = {name.lower(): value for name, value in environment.items()}
            return (source,)

    try:
        read_settings(InAPod)
    except CommandError as error:
        raise CatalogueError(f"cluster.environment.{error}") from error


def _known() -> Iterator[str]:
    for kind in SERVICES:
        prefix = str(kind.model_config.get("env_prefix", ""))
        yield from (f"{prefix}{field}".upper() for field in kind.model_fields)

"""Tenants and what each may ask for, as infra/tenants.yaml and the control topic declare them."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.names import Tenant
from schemas.yaml_file import read_yaml

# What metrics call all that are not declared by name: a label must not have as many values as there are strangers.
OTHER = "other"

KEY_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
ApiKey = Annotated[str, Field(pattern=KEY_PATTERN)]
GpuSeconds = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]


class _Declared(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rate(_Declared):
    """A token bucket: `burst` at once, `per_second` on the long run."""

    per_second: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    burst: Annotated[float, Field(ge=1, le=1e9, allow_inf_nan=False)]


class Span(_Declared):
    """What a day or a month (UTC) may have; absent: as much as the buckets give."""

    requests: Annotated[int, Field(ge=1)] | None = None
    gpu_seconds: GpuSeconds | None = None


class KeyQuota(Rate):
    """Of one key of a tenant: its requests as a bucket, GPU-seconds as another, and longer spans.

    A request takes from all of its key's and all of its tenant's, or from none.
    """

    gpu_seconds: Rate | None = None
    day: Span | None = None
    month: Span | None = None


class Quota(KeyQuota):
    """Of one tenant, all its keys together."""

    keys: dict[ApiKey, KeyQuota] = Field(default_factory=dict)
    default_key: KeyQuota | None = Field(default=None, description="Of a key that is not listed, each its own.")
    outstanding_gpu_seconds: GpuSeconds | None = Field(
        default=None, description="Accepted and not finished, a lane; what is more goes to bulk."
    )
    budget_usd_per_month: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = Field(
        default=None, description="It limits nothing: an alert tells that it is burnt too fast."
    )
    signed: bool = Field(default=False, description="A request without the tenant's signature is not the tenant's.")
    topic: bool = Field(default=False, description="The tenant writes to a requests topic of its own.")


class Tenants(_Declared):
    """Quotas by tenant. Without a default a tenant that is not listed is refused as unknown."""

    default: Quota | None = None
    tenants: dict[Tenant, Quota] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _a_topic_is_one_tenants(self) -> Self:
        if self.default is not None and self.default.topic:
            raise ValueError("default: topic names no tenant; list each tenant that has a topic of its own")
        alike: dict[str, str] = {}
        for name in self.own_topics:
            # Kafka refuses one of two topics that differ in . and _ alone: in its metrics they would be one.
            other = alike.setdefault(name.replace(".", "_"), name)
            if other != name:
                raise ValueError(f"the topics of {other!r} and {name!r} would be one to Kafka; name one otherwise")
        return self

    @property
    def own_topics(self) -> tuple[str, ...]:
        """Tenants that write to a requests topic of their own."""
        return tuple(name for name, quota in sorted(self.tenants.items()) if quota.topic)

    def label_of(self, tenant: str) -> str:
        """The tenant, as metrics call it."""
        return tenant if tenant in self.tenants else OTHER

    def quota_of(self, tenant: str) -> Quota | None:
        return self.tenants.get(tenant, self.default)


def load_tenants(path: Path) -> Tenants:
    """Raises CatalogueError with the first thing wrong in the file."""
    return read_yaml(Tenants, path)

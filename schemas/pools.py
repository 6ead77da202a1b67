"""Pools of GPU consumers, as infra/pools.yaml declares them."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.cluster import Cluster
from schemas.kubernetes import Named, form
from schemas.yaml_file import read_yaml

_VOID = frozenset({"nvidia", "shared"})
PoolName = Annotated[str, form(r"[a-z0-9-]{1,40}", "name of a pool", "at most 40 small letters, digits and '-'")]
MigProfile = Annotated[
    str,
    form(r"[1-9]g\.[0-9]+gb(\.[a-z]+)?", "MIG profile", "it as `nvidia-smi mig -lgip` shows it, such as 1g.18gb"),
]
WaitSeconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class Scaling(BaseModel):
    """How a pool follows its work. Fast out, slow in: a replica that starts pays `load_seconds` of its pool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    signal: Literal["lag", "gpu_seconds"] = Field(
        default="lag", description="What KEDA asks: the lag of the pool's group, or the external scaler."
    )
    wait_seconds: WaitSeconds = Field(default=60.0, description="The objective: so long may work wait.")
    in_time_ratio: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.99, description="So many of the jobs that are not bulk wait no longer; an alert tells where fewer do."
    )
    item_seconds: WaitSeconds | None = Field(
        default=None,
        description="GPU-seconds of one job, for the threshold of lag. Absent: the mean price of the pool's "
        "configurations.",
    )
    polling_seconds: Annotated[int, Field(ge=1, le=3600)] = 5
    cooldown_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        default=300, description="From the last activity until the last replica goes."
    )
    out_window_seconds: Annotated[int, Field(ge=0, le=3600)] = 0
    out_replicas_per_minute: Annotated[int, Field(ge=1, le=2048)] = 16
    in_window_seconds: Annotated[int, Field(ge=0, le=3600)] = Field(
        default=300,
        description="The highest wish of so many seconds stands: above load_seconds and the longest usual job.",
    )
    in_replicas_per_minute: Annotated[int, Field(ge=1, le=2048)] = 1
    fallback_replicas: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="While the signal cannot be had. Absent: as many as there are."
    )


class Pool(BaseModel):
    """GPU consumers on one GPU product. All its lanes have the same number of partitions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu_product: str = Field(description="Its card, as Kubernetes labels it or its vendor names it: see is_product().")
    vram_bytes: Annotated[int, Field(gt=0)]
    price_usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    budget_usd_per_month: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="For all its GPUs together. It limits nothing: an alert tells that it is burnt too fast.",
    )
    replicas_min: Annotated[int, Field(ge=0)] = 0
    replicas_max: Annotated[int, Field(ge=1)] = 4
    partitions: Annotated[int, Field(ge=1, le=2048)] = 8
    load_seconds: WaitSeconds = Field(
        default=45.0,
        description="From a pod's start until its engine has loaded and warmed: probes and plans count on it.",
    )
    job_seconds_max: WaitSeconds = Field(
        default=600.0, description="The longest job that may run here: the grace of a pod that is asked to stop."
    )
    mig_profile: MigProfile | None = Field(default=None, description="A slice instead of a card, as `1g.18gb`.")
    resource_claim_template: Named | None = Field(
        default=None, description="Dynamic resource allocation instead of the device plugin's resource."
    )
    spot: bool = Field(default=False, description="Runs on nodes that may be taken away; drains within their notice.")
    scaling: Scaling = Scaling()
    degrade_wait_seconds: WaitSeconds | None = Field(
        default=None, description="Above it what may be degraded is. Absent: as admission's settings say."
    )
    refuse_wait_seconds: WaitSeconds | None = Field(
        default=None, description="Above it requests are refused. Absent: as admission's settings say."
    )

    @model_validator(mode="after")
    def _room_for_every_replica(self) -> "Pool":
        if self.partitions < 2 * self.replicas_max:
            raise ValueError(
                f"partitions is {self.partitions}; it must be at least 2 x replicas_max = {2 * self.replicas_max}"
            )
        if self.replicas_min > self.replicas_max:
            raise ValueError("replicas_min is above replicas_max; lower it")
        return self

    @model_validator(mode="after")
    def _one_slice(self) -> "Pool":
        if self.mig_profile and "mig" in re.split("[^a-z0-9]+", self.gpu_product.casefold()):
            raise ValueError("gpu_product names a slice and mig_profile too; leave one of them out")
        if self.mig_profile and self.resource_claim_template:
            raise ValueError("a claim template chooses the slice itself; take mig_profile out")
        return self

    def is_product(self, device: str) -> bool:
        """Whether `device`, as its vendor's library names it, is this pool's card.

        Case, the vendor's name, and what stands between words do not matter, and the pool may leave the end out:
        `H200`, `NVIDIA-H200` and `nvidia h200` are all "NVIDIA H200". A slice of a card is only the same slice.
        """
        product = f"{self.gpu_product} MIG {self.mig_profile}" if self.mig_profile else self.gpu_product
        return _same_product(product, device)


@lru_cache(maxsize=4096)
def _same_product(declared: str, device: str) -> bool:
    (card, part), (other, other_part) = _words(declared), _words(device)
    return bool(card) and other[: len(card)] == card and part == other_part


def _words(product: str) -> tuple[list[str], list[str]]:
    """Of the card, and of the slice that a MIG profile names. A card used in turns is `shared` to Kubernetes."""
    words = [word for word in re.findall(r"[a-z0-9.]+", product.casefold()) if word not in _VOID]
    at = words.index("mig") if "mig" in words else len(words)
    return words[:at], words[at:]


class Pools(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    pools: dict[PoolName, Pool]
    cluster: Cluster = Cluster()


def load_pools(path: Path) -> Pools:
    """Raises CatalogueError with the first thing wrong in the file."""
    return read_yaml(Pools, path)

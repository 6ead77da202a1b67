"""Pools of GPU consumers, as infra/pools.yaml declares them."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from schemas.yaml_file import read_yaml

_VOID = frozenset({"nvidia", "shared"})
WaitSeconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class Pool(BaseModel):
    """GPU consumers on one GPU product. All its lanes have the same number of partitions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu_product: str = Field(description="Its card, as Kubernetes labels it or its vendor names it: see is_product().")
    vram_bytes: Annotated[int, Field(gt=0)]
    price_usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    replicas_min: Annotated[int, Field(ge=0)] = 0
    replicas_max: Annotated[int, Field(ge=1)] = 4
    partitions: Annotated[int, Field(ge=1, le=2048)] = 8
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

    def is_product(self, device: str) -> bool:
        """Whether `device`, as its vendor's library names it, is this pool's card.

        Case, the vendor's name, and what stands between words do not matter, and the pool may leave the end out:
        `H200`, `NVIDIA-H200` and `nvidia h200` are all "NVIDIA H200". A slice of a card is only the same slice.
        """
        return _same_product(self.gpu_product, device)


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

    pools: dict[Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")], Pool]


def load_pools(path: Path) -> Pools:
    """Raises CatalogueError with the first thing wrong in the file."""
    return read_yaml(Pools, path)

"""What operators and the placement controller say while everything runs: one record a subject, in control.

The key is the subject, `<what>/<name>[/<name>]`; a tombstone takes it back. When it was said is the record's
LogAppendTime. A reader passes over what it cannot read, and says so: it is of a later release.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from schemas.canary import Weights
from schemas.config_file import ConfigFile
from schemas.errors import Undecodable
from schemas.reading import read_event
from schemas.tenants import Quota

WEIGHT_MAX = 1e6

SubjectKind = Literal["tenant", "config", "pool"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a pause or a drop is about. A config's name may be one version's label, `name@version`."""

    kind: SubjectKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class _Said(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1] = 1
    reason: str = Field(default="", max_length=500, description="For people.")


class Pause(_Said):
    """`pause/<subject>`: new requests are refused; consumers of a paused pool stop taking work."""

    until: AwareDatetime | None = Field(default=None, description="Absent: until it is taken back.")


class Drop(_Said):
    """`drop/<subject>`: every request appended before this record, and not finished, ends as cancelled."""


class Channel(_Said):
    """`channel/<config>/<channel>`: versions with their weights, instead of those of the file."""

    versions: Weights


class Retire(_Said):
    """`retire/<config>/<version>`: refused from now on; work that was admitted still runs."""


class PublishConfig(_Said):
    """`config/<name>`: all versions of a configuration, instead of the file's. A published version never changes."""

    file: ConfigFile


class PublishedVersion(_Said):
    """`version/<config>/<number>/<hash>`: the number was published with that hash, and has no other for ever. It stays
    when its file is taken back, and the broker forgets what was in there. Of several, the first counts."""


class SetQuota(_Said):
    """`tenant/<name>`: what the tenant may ask for, instead of what the file says."""

    quota: Quota


class Share(BaseModel):
    """A partition of a pool, and how much of the work it takes, beside the weights of the other partitions."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    partition: Annotated[int, Field(ge=0)]
    weight: Annotated[float, Field(gt=0, le=WEIGHT_MAX, allow_inf_nan=False)]


class Placement(_Said):
    """`placement/<pool>`: where each model's work goes. Written with requests[0]'s log; a lower term is ignored."""

    term: Annotated[int, Field(ge=0)]
    partitions: Annotated[int, Field(ge=1)] = Field(description="Of the pool, as the table was made for.")
    models: dict[str, tuple[Share, ...]] = Field(description="Model key to its partitions.")
    configs: dict[str, tuple[Share, ...]] = Field(
        default_factory=dict, description="Config hash to its partitions: several only where it is hotter than one."
    )

    @model_validator(mode="after")
    def _shares_are_in_the_pool(self) -> Self:
        for shares in (*self.models.values(), *self.configs.values()):
            for share in shares:
                if share.partition >= self.partitions:
                    raise ValueError(f"a share in partition {share.partition} of {self.partitions}; count from 0")
        return self


Control: TypeAlias = Pause | Drop | Channel | Retire | PublishConfig | PublishedVersion | SetQuota | Placement
_KINDS: dict[str, type[Control]] = {
    "pause": Pause,
    "drop": Drop,
    "channel": Channel,
    "retire": Retire,
    "config": PublishConfig,
    "version": PublishedVersion,
    "tenant": SetQuota,
    "placement": Placement,
}


def control_key(what: str, *names: str) -> bytes:
    """Of the record that says `what` about its subject: control_key("pause", "pool", "default")."""
    assert what in _KINDS
    return "/".join((what, *names)).encode()


def decode_control(key: bytes | None, value: bytes) -> Control:
    """Raises Undecodable on what this release does not know."""
    what = (key or b"").decode("utf-8", "replace").partition("/")[0]
    if what not in _KINDS:
        raise Undecodable(f"control: {what[:40]!r} is no subject of this release")
    return read_event(_KINDS[what], value, f"control {what}")

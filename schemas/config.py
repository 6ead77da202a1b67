"""A configuration: a frozen, versioned set of inference parameters, and the hash that is its identity."""

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from schemas.codec import canonical, sha256_hex

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Family = Literal["sd15", "sdxl", "sd3", "animatediff"]
Scheduler = Literal["ddim", "euler", "euler-ancestral", "dpmpp-2m", "unipc", "flow-match-euler"]
ImageFormat = Literal["png", "webp", "jpeg"]

# Whatever changes a byte of the output. A field that does not is free to change in a published version.
PIXEL_FIELDS = (
    "family", "model", "dtype", "scheduler", "steps", "guidance_scale", "width", "height", "frames",
    "frames_per_second", "bucket", "image_format", "quality",
)  # fmt: skip
# These came later. One that has its default is neither hashed nor written, so that a published version keeps its hash,
# and a consumer of an older release reads every work item that asks for nothing it does not know.
PIXEL_OPTIONS = ("batching",)


class ModelRef(BaseModel):
    """Weights: a folder of the models directory, and the digest its content must have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    digest: Digest


class Price(BaseModel):
    """What one picture costs before anything was measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    vram_bytes: Annotated[int, Field(gt=0)]


class GenerationConfig(BaseModel):
    """One version of one configuration. Immutable: a published version never changes its hash."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
    version: Annotated[int, Field(ge=1)]
    family: Family
    model: ModelRef
    dtype: Literal["float32", "float16", "bfloat16"] = "float16"
    scheduler: Scheduler = "ddim"
    steps: Annotated[int, Field(ge=1, le=500)]
    guidance_scale: Annotated[float, Field(ge=0, le=50, allow_inf_nan=False)]
    width: Annotated[int, Field(ge=64, le=8192, multiple_of=8, description="pixels")]
    height: Annotated[int, Field(ge=64, le=8192, multiple_of=8, description="pixels")]
    frames: Annotated[int, Field(ge=1, le=1024)] = 1
    frames_per_second: Annotated[int, Field(ge=1, le=120)] = 8
    bucket: Annotated[int, Field(ge=1, le=256)] = Field(
        default=4,
        description="Pictures in one padded batch: at one padded size bytes do not depend on neighbours.",
    )
    batching: Literal["step", "whole"] = Field(
        default="step",
        description="step: pictures of one model and shape join and leave a batch at any denoising step. whole: "
        "pictures of one configuration start and end together, in the pipeline's own loop.",
    )
    image_format: ImageFormat = "png"
    quality: Annotated[int, Field(ge=1, le=100)] = 90
    pool: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")] = "default"
    max_images: Annotated[int, Field(ge=1, le=1024)] = 4
    price: Price
    retired: bool = False

    @model_serializer(mode="wrap")
    def _leave_out_options(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        body: dict[str, Any] = write(self)
        return {
            name: value
            for name, value in body.items()
            if name not in PIXEL_OPTIONS or getattr(self, name) != type(self).model_fields[name].default
        }

    @cached_property
    def config_hash(self) -> str:
        """64 hex digits: SHA-256 of the canonical JSON of PIXEL_FIELDS, and of PIXEL_OPTIONS that were chosen."""
        return sha256_hex(canonical(self.model_dump(mode="json", include={*PIXEL_FIELDS, *PIXEL_OPTIONS})))

    @property
    def model_key(self) -> str:
        """What must be loaded: weights and dtype. Changing it is a swap."""
        return f"{self.model.digest.removeprefix('sha256:')[:16]}.{self.dtype}"

    @property
    def kind(self) -> str:
        """What may share a batch: all of one kind agree in whatever the batch has only once."""
        if self.batching == "whole":
            return self.config_hash
        return f"{self.model_key}.{self.width}x{self.height}x{self.frames}.{self.bucket}"

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"


class ConfigFile(BaseModel):
    """One YAML file: every version of one configuration, and the channels that point to them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str = ""
    channels: dict[str, int]
    versions: dict[int, GenerationConfig]

    @model_validator(mode="before")
    @classmethod
    def _name_the_versions(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("versions"), dict):
            versions = {
                number: {**body, "name": data.get("name"), "version": number} if isinstance(body, dict) else body
                for number, body in data["versions"].items()
            }
            return {**data, "versions": versions}
        return data

    @model_validator(mode="after")
    def _channels_exist(self) -> "ConfigFile":
        for channel, version in self.channels.items():
            if version not in self.versions:
                raise ValueError(f"channel {channel!r} points to version {version}, which is not in the file")
        return self

"""A configuration: a frozen, versioned set of inference parameters, and the hash that is its identity."""

from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)

from schemas.codec import canonical, encode, sha256_hex
from schemas.counted import counted

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Family = Literal["sd15", "sdxl", "sd3", "animatediff"]
Scheduler = Literal["ddim", "euler", "euler-ancestral", "dpmpp-2m", "unipc", "flow-match-euler"]
ImageFormat = Literal["png", "webp", "jpeg", "mp4"]

FLOW_FAMILIES = ("sd3",)  # trained to follow a flow: the schedulers of diffusion do not fit them, nor theirs the others
VIDEO_FAMILIES = ("animatediff",)
STILL_FORMATS = ("png", "jpeg")
H264_MACROBLOCKS_MAX = 139_264  # of 16 x 16 pixels in a frame at level 6.2, the highest (ITU-T H.264, table A-1)
WEBP_FRAMES_PER_SECOND_MAX = 90  # browsers show a frame of 10 ms or less for 100 ms

# Whatever changes a byte of the output. A field that does not is free to change in a published version.
PIXEL_FIELDS = (
    "family", "model", "dtype", "scheduler", "steps", "guidance_scale", "width", "height", "frames",
    "frames_per_second", "bucket", "image_format", "quality",
)  # fmt: skip
# These came later. One that has its default is neither hashed nor written, so that a published version keeps its hash,
# and a consumer of an older release reads every work item that asks for nothing it does not know.
#
# Those of LOAD_OPTIONS decide how weights stand in memory once they are loaded: a model with others is another model.
LOAD_OPTIONS = ("vae_slicing", "vae_tiling", "attention", "compile", "offload", "loras")
PIXEL_OPTIONS = ("batching", *LOAD_OPTIONS)


class ModelRef(BaseModel):
    """Weights: a folder of the models directory, and the digest its content must have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    digest: Digest


class LoraRef(ModelRef):
    """A LoRA of the models directory, a .safetensors file or a folder with one, and the digest it must have."""

    scale: Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False)] = 1.0


class Compile(BaseModel):
    """How torch.compile makes kernels of a model, once for each shape that it sees."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # Not max-autotune: it takes what it measured to be fastest, and so two consumers may draw different bytes.
    backend: Literal["inductor", "tensorrt", "aot_eager", "eager"] = Field(
        default="inductor", description="eager and aot_eager make no kernels: they are for finding faults."
    )
    mode: Literal["default", "reduce-overhead"] = Field(
        default="default", description="reduce-overhead records CUDA graphs, for inductor alone."
    )
    fullgraph: bool = Field(default=False, description="Refuse a model that cannot be compiled in one piece.")
    parts: Annotated[tuple[Literal["denoiser", "decoder"], ...], Field(min_length=1, max_length=2)] = ("denoiser",)

    @model_validator(mode="after")
    def _mode_fits_the_backend(self) -> Self:
        if self.mode != "default" and self.backend != "inductor":
            raise ValueError(f"the backend {self.backend} has no mode {self.mode}; leave mode out, or take inductor")
        return self


class Price(BaseModel):
    """What one picture costs before anything was measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
    vram_bytes: Annotated[int, Field(gt=0, le=1 << 50)]


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
    vae_slicing: bool = Field(default=False, description="Decode the pictures of a batch one after the other.")
    vae_tiling: StrictBool | Annotated[int, Field(ge=64, le=4096, multiple_of=64)] = Field(
        default=False,
        description="Decode in overlapping tiles of so many pixels; true: of the size that the VAE was trained for.",
    )
    attention: Literal["sdpa", "xformers"] = Field(default="sdpa", description="Who computes the denoiser's attention.")
    compile: Compile | None = Field(default=None, description="Kernels made for this model, by torch.compile.")
    offload: Literal["none", "model", "sequential"] = Field(
        default="none",
        description="Keep weights in host memory, and bring a part of the model (model) or a layer (sequential) to the "
        "device when it runs.",
    )
    loras: Annotated[tuple[LoraRef, ...], Field(max_length=8)] = Field(
        default=(), description="Merged into the weights when the model is loaded, in this order."
    )
    image_format: ImageFormat = "png"
    quality: Annotated[int, Field(ge=1, le=100)] = 90
    pool: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")] = "default"
    max_images: Annotated[int, Field(ge=1, le=1024)] = 4
    price: Price
    retired: bool = False

    @model_validator(mode="after")
    def _scheduler_fits_the_family(self) -> Self:
        flow = "flow-match-euler"
        if (self.family in FLOW_FAMILIES) != (self.scheduler == flow):
            cure = flow if self.family in FLOW_FAMILIES else f"any other than {flow}"
            raise ValueError(f"the family {self.family} does not run on {self.scheduler}; set scheduler: {cure}")
        return self

    @model_validator(mode="after")
    def _format_fits_the_frames(self) -> Self:
        if (self.family in VIDEO_FAMILIES) != (self.frames > 1):
            cure = "2 or more" if self.family in VIDEO_FAMILIES else "1"
            frames = counted(self.frames, "frame")
            raise ValueError(f"the family {self.family} does not make {frames}; set frames: {cure}")
        if self.frames > 1 and self.image_format in STILL_FORMATS:
            raise ValueError(f"a {self.image_format} holds one frame, not {self.frames}; set image_format: mp4 or webp")
        if self.frames == 1 and self.image_format == "mp4":
            raise ValueError("an mp4 of one frame is no video; set image_format: png, webp or jpeg")
        return self

    @model_validator(mode="after")
    def _format_can_be_played(self) -> Self:
        macroblocks = -(-self.width // 16) * -(-self.height // 16)
        if self.image_format == "mp4" and macroblocks > H264_MACROBLOCKS_MAX:
            raise ValueError(
                f"an mp4 of {self.width} x {self.height} is more than H.264 allows at any level; set a smaller width "
                "or height, or image_format: webp"
            )
        if self.image_format == "webp" and self.frames > 1 and self.frames_per_second > WEBP_FRAMES_PER_SECOND_MAX:
            raise ValueError(
                f"browsers slow a webp of {self.frames_per_second} frames a second down; set frames_per_second: "
                f"{WEBP_FRAMES_PER_SECOND_MAX} or less, or image_format: mp4"
            )
        return self

    @model_validator(mode="after")
    def _size_fits_the_family(self) -> Self:
        if self.family == "sd3" and (self.width % 16 or self.height % 16):
            raise ValueError(
                f"the family sd3 sees two latents, 16 pixels, at a time; set width and height to multiples of 16, "
                f"not {self.width} x {self.height}"
            )
        return self

    @model_validator(mode="after")
    def _offloading_has_the_model_to_itself(self) -> Self:
        if self.offload != "none" and self.batching != "whole":
            raise ValueError(
                f"offload: {self.offload} needs batching: whole, since step batching calls the parts of a model where "
                "they stand; set that, or leave offload out"
            )
        if self.offload != "none" and self.compile is not None:
            raise ValueError("weights that come and go cannot be compiled; leave either offload or compile out")
        return self

    @model_validator(mode="after")
    def _a_lora_comes_once(self) -> Self:
        names = [lora.name for lora in self.loras]
        if len(set(names)) < len(names):
            raise ValueError("a LoRA is named twice; name it once, with the sum of its scales")
        return self

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

    @cached_property
    def text(self) -> str:
        """Its JSON, made once: it is in every work item."""
        return encode(self).decode()

    @property
    def duration_seconds(self) -> float | None:
        """Of a video; a picture has none."""
        return self.frames / self.frames_per_second if self.frames > 1 else None

    @cached_property
    def model_key(self) -> str:
        """What must be loaded: family, weights, dtype, and the LOAD_OPTIONS that were chosen. Changing it is a swap."""
        key = f"{self.family}.{self.model.digest.removeprefix('sha256:')[:16]}.{self.dtype}"
        chosen = self.model_dump(mode="json", include=set(LOAD_OPTIONS))
        return f"{key}.{sha256_hex(canonical(chosen))[:16]}" if chosen else key

    @property
    def kind(self) -> str:
        """What may share a batch: all of one kind agree in whatever the batch has only once."""
        if self.batching == "whole":
            return self.config_hash
        return f"{self.model_key}.{self.width}x{self.height}x{self.frames}.{self.bucket}"

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"

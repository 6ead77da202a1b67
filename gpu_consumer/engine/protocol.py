"""What the consumer and its engine say to each other. No torch here: the consumer never imports it."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig

FlawCode = Literal["non_finite", "blank_output", "out_of_memory", "generation_error"]
BrokenKind = Literal["model_unavailable", "sticky", "crash"]
SEEDS = range(-(2**63), 2**64)  # what torch.Generator.manual_seed takes


@dataclass(frozen=True, slots=True)
class Item:
    """One picture to make. `key` is the caller's and comes back with the picture; unique in a batch."""

    key: str
    prompt: str
    negative_prompt: str
    seed: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Items of one configuration, at most its bucket of them."""

    number: int
    config: GenerationConfig
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """An encoded picture. `bucket` is the padded batch it was made in: the config's, or less where memory ran out."""

    key: str
    data: bytes
    content_type: str
    extension: str
    width: int
    height: int
    bucket: int
    frames: int = 1
    duration_seconds: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why an item has no picture, in one sentence. Its neighbours have theirs."""

    key: str
    code: FlawCode
    message: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Every item of a batch, as a picture or as a flaw, in the order of the batch.

    `timings`: seconds of the stages text, denoise, decode and encode, and load where a model was loaded for it.
    `gpu_seconds`: text, denoise and decode, all tries. `peak_vram_bytes`: the highest of the device while it ran.
    `bucket`: the smallest padded batch that was used.
    """

    number: int
    pictures: tuple[Picture, ...]
    flaws: tuple[Flaw, ...]
    timings: dict[str, float]
    gpu_seconds: float
    peak_vram_bytes: int
    bucket: int


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """`product` as the vendor names it; `uuid` of the card or MIG slice; all of its memory."""

    product: str
    uuid: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine has loaded its preload list and run each of it once. `timings`: seconds of import, load and warm."""

    device: DeviceInfo
    libraries: dict[str, str]
    timings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to an engine process: its settings, and what to load and warm, the most wanted model first."""

    settings: EngineSettings
    preload: tuple[GenerationConfig, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """The engine cannot do what it was told. After all but model_unavailable it is gone."""

    number: int | None
    kind: BrokenKind
    message: str


class EngineDied(Exception):
    """The engine process is gone, and with it what ran. Only where a batch was `running` may its items be at fault."""

    def __init__(self, message: str, *, running: bool) -> None:
        super().__init__(message)
        self.running = running


class Engine(Protocol):
    """Runs one batch at a time. Nothing here blocks the loop."""

    @property
    def alive(self) -> bool:
        """Started, and not dead as far as is known."""
        ...

    async def start(self) -> Ready:
        """Load and warm; also after a death. Raises EngineDied, ModelUnavailable."""
        ...

    async def run(self, batch: Batch) -> Finished:
        """Raises EngineDied: start again; ModelUnavailable: hold the items, the engine lives on.

        A cancelled call lets the batch run to its end in the engine, unheard; the next call waits for it.
        """
        ...

    async def stop(self) -> None:
        """End the engine, whatever it does, within a bounded time; cancelled, at once. Safe to call twice."""
        ...

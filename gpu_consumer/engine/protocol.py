"""What the consumer and its engine say to each other. No torch here: the consumer never imports it.

    to the engine     Setup first; then Batch, Leave, Learn and Profile, at any time
    from the engine   Ready first; then Joined, Drawn, Ended, Refused, Pulse, Observed and Profiled; Broken is the last

Items wait in the engine in the order in which they were sent. The first of them joins as soon as a slot of its kind is
free; an item of another kind waits until everything before it has ended. So whoever sends decides what runs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from gpu_consumer.engine.settings import EngineSettings
from schemas.config import GenerationConfig

FlawCode = Literal["non_finite", "blank_output", "out_of_memory", "generation_error"]
BrokenKind = Literal["model_unavailable", "sticky", "crash", "wrong_answer"]
NOT_STARTED = "the engine is not started; start it"
SEEDS = range(-(2**63), 2**64)  # what torch.Generator.manual_seed takes


@dataclass(frozen=True, slots=True)
class Item:
    """One picture to make. `key` is the caller's and comes back with the picture; unique in the engine."""

    key: str
    prompt: str
    negative_prompt: str
    seed: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Items of one configuration. Those that run whole (schemas.config) come at most a bucket at a time."""

    config: GenerationConfig
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Cancelled or too late: each of these ends before the next step, unless it has ended."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Peak:
    """Memory that a padded batch of one kind took beside the weights, as measured."""

    kind: str
    bucket: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Learn:
    """What other engines measured."""

    peaks: tuple[Peak, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """Trace the next `steps` steps, at least 1."""

    steps: int


@dataclass(frozen=True, slots=True)
class Picture:
    """An encoded picture or video. `bucket`: the padded batch it was made in, below its config's if memory ran out."""

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
class Share:
    """What one item cost.

    `timings`: its seconds in the stages text, denoise, decode and encode, shared among those who were there, and load
    where a model was loaded for it. `gpu_seconds`: its part of text, denoise and decode, all tries. `peak_vram_bytes`:
    the highest of the device while it was there. `batch_size`: pictures beside it, itself included, padding left out;
    the mean over its steps, rounded. `bucket`: the smallest padded batch it ran in.
    """

    timings: Mapping[str, float] = field(default_factory=dict)
    gpu_seconds: float = 0.0
    peak_vram_bytes: int = 0
    batch_size: int = 1
    bucket: int = 1


@dataclass(frozen=True, slots=True)
class Joined:
    """These have a slot from here on; if the engine dies, they may be at fault."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """These hold no slot any more. Their pictures are still to be decoded and encoded."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """Once for every item that was sent, but for those of a Refused. `outcome`: None if it left as it was told to."""

    key: str
    outcome: Picture | Flaw | None
    share: Share


@dataclass(frozen=True, slots=True)
class Refused:
    """The model of these cannot be had; the engine lives on."""

    keys: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes. `allocated` and `reserved` of our own allocator; `predicted`: the peak expected of what runs, weights
    included; `free`: of the device, right now, neighbours considered."""

    allocated: int = 0
    reserved: int = 0
    predicted: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True)
class Pulse:
    """The engine is alive, and this is what it does. At least one a step, or four a second where steps are shorter.

    `doing`: load also while it does what it never did before, for which kernels may have to be made;
    `kind`: what it runs, None if nothing; `slots`: how many of it may run at once; `fill`: slots that are taken;
    `steps`: since the engine started; `step_seconds`: the median of the last ones, None before the first;
    `silent_seconds`: how long the work that begins, which gives no sign of life before its end, took the last time;
    `models`: those on the device, the one used last at the end; `made`: steps of each that has a slot, by its key.
    """

    doing: Literal["nothing", "load", "step"]
    kind: str | None = None
    slots: int = 0
    fill: int = 0
    steps: int = 0
    step_seconds: float | None = None
    silent_seconds: float = 0.0
    models: tuple[str, ...] = ()
    memory: MemoryReading = MemoryReading()
    made: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a batch of a kind took, for the observations topic; after each session, and now and then within."""

    peak: Peak
    config_hash: str
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class Profiled:
    """A trace in Chrome's format, compressed with gzip."""

    trace: bytes
    steps: int


Event: TypeAlias = Joined | Drawn | Ended | Refused | Pulse | Observed | Profiled


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """`product` as the vendor names it; `uuid` of the card or MIG slice; all of its memory."""

    product: str
    uuid: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine has loaded its preload list and run each shape of it once.

    `timings`: seconds of import, load and warm. `answers`: config hash -> SHA-256 of the picture that each
    configuration of the preload list drew of a known prompt.
    """

    device: DeviceInfo
    libraries: dict[str, str]
    timings: dict[str, float] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to an engine process: its settings, and what to load and warm, the most wanted model first.

    `answers`: of the engine before it. One that draws another picture on the same device is Broken, wrong_answer.
    `board`: the descriptor by which the processes of a team find the weights they share (engine/sharing.py).
    """

    settings: EngineSettings
    preload: tuple[GenerationConfig, ...]
    answers: Mapping[str, str] = field(default_factory=dict)
    board: int | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """The engine cannot go on, and is gone."""

    kind: BrokenKind
    message: str


class EngineDied(Exception):
    """The engine process is gone, and with it all that was in it. `joined`: what had a slot, and may be at fault."""

    def __init__(self, message: str, *, joined: Collection[str] = ()) -> None:
        super().__init__(message)
        self.joined = frozenset(joined)


class Engine(Protocol):
    """Makes pictures. For one task; nothing here blocks the loop."""

    @property
    def alive(self) -> bool:
        """Started, and not dead as far as is known."""
        ...

    async def start(self) -> Ready:
        """Load and warm; also after a death. Raises EngineDied, ModelUnavailable."""
        ...

    async def submit(self, batch: Batch) -> None:
        """Returns when it is on its way. Raises EngineDied."""
        ...

    async def leave(self, keys: Collection[str]) -> None:
        """Returns when it is on its way; keys that are not there are no error. Raises EngineDied."""
        ...

    async def events(self) -> Sequence[Event]:
        """What happened since the last call, at least one; waits for it. A cancelled call loses nothing.

        Raises EngineDied, when all that was said before it has been returned.
        """
        ...

    async def stop(self) -> None:
        """End the engine, whatever it does, within a bounded time; cancelled, at once. Safe to call twice."""
        ...


@runtime_checkable
class DeviceEngine(Engine, Protocol):
    """An engine with a device: it has memory to learn about, and steps to trace."""

    async def learn(self, peaks: Sequence[Peak]) -> None:
        """Tell it what others of the same device measured. Raises EngineDied."""
        ...

    async def profile(self, steps: int) -> None:
        """Ask for a trace of the next `steps` steps, at least 1; it comes as Profiled. Raises EngineDied."""
        ...

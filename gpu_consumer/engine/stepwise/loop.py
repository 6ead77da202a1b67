"""The step loop: one padded batch of requests that join and leave at any step."""

from collections.abc import Iterable, Sequence

import torch

from gpu_consumer.engine.account import Account
from gpu_consumer.engine.device import Device
from gpu_consumer.engine.faults import Trouble, trouble
from gpu_consumer.engine.stepwise.batch import Batch
from gpu_consumer.engine.stepwise.decoder import decode
from gpu_consumer.engine.stepwise.families import STEP_FAMILIES
from gpu_consumer.engine.stepwise.families.base import Rows
from gpu_consumer.engine.stepwise.lives import Life, Lives, charged
from gpu_consumer.engine.stepwise.request import Ended, Request, Shape
from gpu_consumer.engine.stepwise.samplers import Sampler, Schedulers
from gpu_consumer.engine.stepwise.texts import Texts
from gpu_consumer.models.loading import Loaded

# A decode of a full bucket costs about as much as three steps of Stable Diffusion 1.5, whoever is in it. Waiting this
# many steps for company costs a picture less than that, and halves the number of decodes at a middling load.
DECODE_WAIT_STEPS = 4
TEXTS_KEPT = 64  # rows of SDXL in float16: 0.3 MB each, so 20 MB


class Stepwise:
    """All slots share model, dtype and shape; steps, guidance scale, scheduler and negative prompt may differ.

    The model always runs at twice the bucket, text and decoder at a full one, so a picture's bytes do not depend on its
    neighbours, its slot, or the step at which it joined. For one thread. `item_bytes`: expected memory of one slot.
    """

    def __init__(
        self,
        device: Device,
        loaded: Loaded,
        shape: Shape,
        *,
        decode_bucket: int | None = None,
        decode_wait_steps: int = DECODE_WAIT_STEPS,
        texts_kept: int = TEXTS_KEPT,
        item_bytes: int = 0,
    ) -> None:
        """Raises ValueError where the model cannot run step by step: use the pipeline engine."""
        family = STEP_FAMILIES.get(loaded.family.pipeline_class)
        problem = (
            f"a {loaded.family.pipeline_class} has no step family" if family is None else family.unsuited(loaded.pipe)
        )
        if family is None or problem:
            raise ValueError(f"this model cannot run step by step: {problem}; set batching: whole in its config")
        self.shape = shape
        self._loaded = loaded
        self._decode_bucket = decode_bucket or shape.bucket
        self._decode_wait_steps = decode_wait_steps
        self._item_bytes = item_bytes
        self._device = device
        self._account = Account(device, shape.bucket)
        self._lives = Lives(shape.bucket)
        self._texts = Texts(loaded, family, shape, texts_kept)
        self._batch = Batch(loaded.pipe, family, shape)
        self._schedulers = Schedulers(loaded.scheduler_config)
        self.steps = 0

    @property
    def free_slots(self) -> int:
        return self._lives.free_slots

    @property
    def made(self) -> dict[str, int]:
        """Steps of each that has a slot, by its key."""
        return {life.key: life.sampler.steps for life in self._lives.running() if life.sampler is not None}

    @property
    def idle(self) -> bool:
        """Nothing is here, and step would do nothing."""
        return self._lives.idle

    @property
    def timings(self) -> dict[str, float]:
        """Seconds of the stages text, denoise and decode so far."""
        return dict(self._account.timings)

    @property
    def peak_bytes(self) -> int:
        return self._account.peak_bytes

    def join(self, requests: Sequence[Request]) -> None:
        """Into free slots, from the next step on. At most `free_slots` of them, with keys that are not here."""
        for request in requests:
            self._lives.join(request)

    def hint(self, requests: Iterable[Request]) -> None:
        """These may join soon: their texts are encoded where they cost least. Never needed, never wrong."""
        self._texts.hint(text for request in requests for text in _texts(request))

    def leave(self, key: str) -> Request | None:
        """Cancelled or too late: gone before the next step, wherever it is. None if it is not here."""
        life = self._lives.get(key)
        if life is None:
            return None
        self._lives.leave(life)
        return life.request

    def evict(self) -> list[Request]:
        """All that are here, in the order of joining, and out of it. For a smaller bucket, where memory ran out."""
        evicted = list(self._lives)
        for life in evicted:
            self._lives.leave(life)
        self._lives.check()
        return [life.request for life in evicted]

    def take_ended(self) -> list[Ended]:
        """What had ended before a step raised."""
        return self._lives.take_ended()

    def drawn(self) -> list[str]:
        """The keys of those that hold no slot any more and wait for their picture, the longest waiting first."""
        return [life.key for life in self._lives.drawn()]

    @torch.no_grad()
    def step(self) -> list[Ended]:
        """One denoising step of every slot; blocks for it. What ended, in the order in which it did.

        Raises torch.OutOfMemoryError (everything is still here: evict, and join a smaller bucket) and faults.Sticky.
        What had ended before it raised is returned by the next call.
        """
        present = list(self._lives)
        with self._account.memory(self._item_bytes * self.shape.bucket) as usage:
            self._hear()
            self._denoise()
            self._decode()
        for life in present:
            life.request.bill.saw(usage.peak_bytes)
        self._lives.check()
        return self._lives.take_ended()

    def _hear(self) -> None:
        """Give those that joined their conditioning and their noise."""
        deaf = self._lives.deaf()
        if not deaf:
            # Ahead of need only where it costs least: a full run of the encoder, or a device with nothing else to do.
            if self._texts.bucket_ahead or (self._texts.any_ahead and not len(self._lives)):
                self._settle()
                self._texts.encode_ahead(self._account)
            return
        wanted: dict[str, list[str]] = {}
        for life in deaf:
            for text in _texts(life.request):
                wanted.setdefault(text, []).append(life.key)
        if self._texts.missing(wanted):
            self._settle()
        with charged(deaf, "text"):
            rows, failed = self._texts.get(wanted, self._account)
        for life in deaf:
            found = next((failed[text] for text in _texts(life.request) if text in failed), None)
            if found is None:
                found = self._begin(life, rows)
            if found is not None:
                self._lives.fail(life, found)

    def _begin(self, life: Life, rows: dict[str, Rows]) -> Trouble | None:
        request = life.request
        positive, *negative = (rows[text] for text in _texts(request))
        try:
            scheduler = self._schedulers.fresh(request.scheduler)
            sampler = Sampler(request, scheduler, self._batch.latent_shape, self._batch.dtype, self._batch.device)
            self._batch.place(life.slot, positive, negative[0] if negative else None, request.guidance_scale)
        except Exception as error:
            return _the_items_own(trouble(error))
        life.sampler = sampler
        return None

    def _denoise(self) -> None:
        running = self._lives.running()
        if not running:
            return
        self.steps += 1
        with charged(running, "denoise"), self._account.host_stage("denoise"):
            noises = self._predict(running)
            for life in running:
                if life.slot in noises:
                    self._advance(life, noises[life.slot])
        for life in running:
            life.request.bill.stepped(len(running))

    def _predict(self, running: Sequence[Life]) -> dict[int, torch.Tensor]:
        """Slot -> noise. A batch that fails is halved until the bad item is alone; its shape stays, so bytes do too."""
        samplers = {life.slot: life.sampler for life in running if life.sampler is not None}
        try:
            return self._device.run("denoise", [life.key for life in running], lambda: self._batch.predict(samplers))
        except Exception as error:
            found = _the_items_own(trouble(error))
        if len(running) == 1:
            self._lives.fail(running[0], found)
            return {}
        half = len(running) // 2
        return self._predict(running[:half]) | self._predict(running[half:])

    def _advance(self, life: Life, noise: torch.Tensor) -> None:
        assert life.sampler is not None
        try:
            life.sampler.advance(noise)
        except Exception as error:
            self._lives.fail(life, _the_items_own(trouble(error)))
        else:
            if life.sampler.done:
                self._lives.draw(life, self.steps)

    def _decode(self) -> None:
        """Full buckets at once; less than one where somebody waited long enough, or nothing else can run."""
        drawn = self._lives.drawn()
        while drawn:
            full = len(drawn) >= self._decode_bucket
            waited = self.steps - (drawn[0].drawn_at_step or 0)
            alone = len(drawn) == len(self._lives)
            if not (full or alone or waited >= self._decode_wait_steps):
                return
            batch, drawn = drawn[: self._decode_bucket], drawn[self._decode_bucket :]
            self._settle()
            latents = {life.key: life.sampler.latents for life in batch if life.sampler is not None}
            with charged(batch, "decode"):
                results = decode(self._loaded, latents, self._decode_bucket, self._account)
            for life in batch:
                result = results[life.key]
                if isinstance(result, Trouble):
                    self._lives.fail(life, result)
                else:
                    self._lives.make(life, result, latents[life.key])

    def _settle(self) -> None:
        """Wait for the steps given to the device, so that the next stage is not charged for them."""
        with self._account.stage("denoise"):
            pass


def _texts(request: Request) -> tuple[str, ...]:
    """The prompt, and the negative prompt where it is heard."""
    return (request.item.prompt, request.item.negative_prompt) if request.guided else (request.item.prompt,)


def _the_items_own(found: Trouble) -> Trouble:
    """Memory is nobody's fault here: the same item fits into a smaller bucket. Raises torch.OutOfMemoryError."""
    if found.out_of_memory:
        raise torch.OutOfMemoryError(found.message)
    return found

"""Pixels to files in a thread of their own, so that the step loop never waits for a compressor."""

import os
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpu_consumer.engine.encode import CONTENT_TYPES, encode
from gpu_consumer.engine.faults import trouble
from gpu_consumer.engine.inbox import HungUp
from gpu_consumer.engine.protocol import Broken, Ended, Event, Flaw, Picture
from gpu_consumer.engine.sessions.base import Decoded

# Two full buckets of four, as pixels of 1024 x 1024: 25 MB. Beyond it the step loop waits: encoding is what is short.
WAITING_MAX = 8
_LOOK_SECONDS = 0.25  # between two signs of life of one who waits for the encoder


class Encoder:
    """What is put in is said to have ended when its bytes are there. One that takes longer than `seconds_max` ends the
    engine, which tells why: the step loop goes on beside it, so nobody else would notice."""

    def __init__(
        self, say: Callable[[Sequence[Event]], None], tell: Callable[[Broken], None], *, seconds_max: float
    ) -> None:
        self._say = say
        self._tell = tell
        self._seconds_max = seconds_max
        self._waiting: queue.Queue[Decoded | None] = queue.Queue(WAITING_MAX)
        self._encoding: Decoded | None = None
        self._used = False
        self._thread = threading.Thread(target=self._work, name="encoder", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="encoder-watch", daemon=True).start()

    def put(self, decoded: Decoded, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Blocks while WAITING_MAX of them wait, and calls `meanwhile` four times a second: a video takes its time."""
        self._used = True
        self._give(decoded, meanwhile)

    def close(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Blocks until all that was put in is said; calls `meanwhile` as put does, if anything ever was."""
        self._give(None, meanwhile)
        while self._thread.is_alive():
            self._thread.join(_LOOK_SECONDS)
            if self._used:
                meanwhile()

    def _give(self, what: Decoded | None, meanwhile: Callable[[], None]) -> None:
        while True:
            try:
                self._waiting.put(what, timeout=_LOOK_SECONDS)
            except queue.Full:
                meanwhile()
            else:
                return

    def _work(self) -> None:
        try:
            while (decoded := self._waiting.get()) is not None:
                self._encoding = decoded
                ended = encoded(decoded)
                self._encoding = None
                self._say([ended])
        except HungUp:
            return  # nobody listens: whoever steps finds out, at the latest when it says that it waits for us
        except BaseException:
            traceback.print_exc()
            os._exit(os.EX_SOFTWARE)  # or the step loop would fill the queue, and wait for nobody

    def _watch(self) -> None:
        # Counted in looks: after a suspension of the whole machine a clock would blame the encoder for it.
        looks, seen = 0, self._encoding
        while self._thread.is_alive():
            self._thread.join(_LOOK_SECONDS)
            now = self._encoding
            looks = looks + 1 if now is not None and now is seen else 0
            seen = now
            if now is not None and looks * _LOOK_SECONDS >= self._seconds_max:
                try:
                    self._tell(Broken("crash", f"to encode {now.wanted.key} took longer than {self._seconds_max:g} s"))
                finally:
                    os._exit(os.EX_SOFTWARE)


def encoded(decoded: Decoded) -> Ended:
    """The end of one picture, its encoding booked."""
    started = time.monotonic()
    key = decoded.wanted.key
    outcome: Picture | Flaw
    try:
        outcome = _picture(decoded)
    except Exception as error:
        found = trouble(error)
        outcome = Flaw(key, found.code, found.message)
    timings = {**decoded.share.timings, "encode": time.monotonic() - started}
    return Ended(key, outcome, replace(decoded.share, timings=timings))


def _picture(decoded: Decoded) -> Picture:
    config = decoded.wanted.config
    content_type, extension = CONTENT_TYPES[config.image_format]
    return Picture(
        key=decoded.wanted.key,
        data=encode(decoded.pixels, config.image_format, config.quality, config.frames_per_second),
        content_type=content_type,
        extension=extension,
        width=decoded.pixels.shape[-2],
        height=decoded.pixels.shape[-3],
        bucket=decoded.bucket,
        frames=config.frames,
        duration_seconds=config.duration_seconds,
        warnings=decoded.warnings,
    )

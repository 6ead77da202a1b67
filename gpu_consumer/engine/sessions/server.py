"""The engine's loop: read what has come, let join what may, make one step, say what came of it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Never

import torch

from gpu_consumer.engine.device import Device
from gpu_consumer.engine.encoder import Encoder
from gpu_consumer.engine.faults import trouble
from gpu_consumer.engine.heart import Heart
from gpu_consumer.engine.inbox import Inbox
from gpu_consumer.engine.outbox import Outbox
from gpu_consumer.engine.protocol import Drawn, Ended, Event, Item, Joined, Refused, Share
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions.base import Decoded, Outcome, Session, Wanted
from gpu_consumer.engine.sessions.grants import Grants
from gpu_consumer.engine.sessions.observations import Observations
from gpu_consumer.engine.sessions.step import StepSession
from gpu_consumer.engine.sessions.watched import watched
from gpu_consumer.engine.sessions.whole import WholeSession
from gpu_consumer.engine.tracer import Tracer
from gpu_consumer.models.digests import ModelUnavailable
from schemas.config import GenerationConfig

_IDLE_SECONDS = 1.0  # between two signs of life of an engine that has nothing to do


class Server:
    """One session runs at a time, for those at the head of the inbox. For one thread."""

    def __init__(self, device: Device, residence: Residence, inbox: Inbox, outbox: Outbox, encoder: Encoder) -> None:
        self._residence = residence
        self._inbox = inbox
        self._outbox = outbox
        self._encoder = encoder
        self._grants = Grants(device, residence)
        self._heart = Heart(outbox.say, device, residence)
        self._device = watched(device, self._begins, self._heart.failed)
        self._tracer = Tracer()
        self._observations = Observations()
        self._session: Session | None = None
        self._fresh = False  # nobody has joined the session yet
        self._loads: dict[str, float] = {}  # key -> its part of the seconds that loading its model took
        self._since = 0.0

    def serve(self) -> Never:
        """Until the pipe closes, by raising HungUp. Raises faults.Sticky."""
        self._heart.start()
        while True:
            resting = self._rests and self._inbox.head is None
            self._beat()
            self._attend(_IDLE_SECONDS if resting else 0.0)
            self._admit()
            if not self._rests:
                self._step()

    @property
    def _rests(self) -> bool:
        return self._session is None or self._session.idle

    def open(self, config: GenerationConfig) -> float:
        """Open the session of `config` in place of the one before; the seconds that loading its model took, or 0.

        Blocks while it loads. Raises ModelUnavailable, and ValueError, with the cure, where the model cannot run as
        `config` asks.
        """
        if self._session is not None:
            self._observe(self._session)
        self._session = None  # what it holds is let go before the next one loads
        loaded, seconds = self._residence.take(config)
        if problem := loaded.family.unfit(loaded.pipe, config):
            raise ValueError(f"the model of {config.label} cannot make it: {problem}")
        if config.batching == "whole":
            self._session = WholeSession(self._device, self._residence, loaded, self._grants, config, self._stepped)
        else:
            self._session = StepSession(self._device, self._residence, loaded, self._grants, config, self._stepped)
        self._fresh = True
        return seconds

    def draw(self, config: GenerationConfig, item: Item, steps_max: int) -> tuple[Ended | Decoded, float]:
        """Draw `item` alone in a session of `config`, in few steps, and say nothing of it: its end, and the seconds of
        loading.

        Raises what `open` raises, and faults.Sticky.
        """
        seconds = self.open(config)
        session = self._session
        assert session is not None
        session.join([Wanted(item, config.model_copy(update={"steps": min(config.steps, steps_max)}))])
        ends: list[Ended | Refused | Decoded] = []
        while not session.idle:
            ends += [outcome for outcome in session.step() if not isinstance(outcome, Drawn)]
        self._heart.rest()
        self._fresh = False
        (end,) = ends  # nobody can have left
        if isinstance(end, Refused):
            raise ModelUnavailable(end.message)
        return end, seconds

    def _beat(self) -> None:
        self._heart.beat(self._session)

    def _begins(self, stage: str) -> None:
        assert self._session is not None
        self._heart.begin(self._session, stage)

    def _attend(self, seconds: float) -> None:
        """Read what has come. Who is to leave has left afterwards."""
        ended: list[Event] = []
        for key in self._inbox.read(seconds):
            if self._inbox.drop(key):
                ended.append(Ended(key, None, Share()))
            elif self._session is not None and (left := self._session.leave(key)) is not None:
                ended.append(self._with_load(left))
        self._outbox.say(ended)
        self._grants.learn(self._inbox.take_peaks())
        self._tracer.ask(self._inbox.take_profile())

    def _admit(self) -> None:
        """Let the head join, and those behind it, while they are of the running kind and a slot is free."""
        load_seconds = 0.0
        while (head := self._inbox.head) is not None:
            if not self._suits(head):
                if not self._rests:
                    return
                load_seconds = self._open_for(head)
                self._attend(0.0)  # who was told to leave meanwhile takes no slot
                continue
            session = self._session
            assert session is not None
            joining = self._inbox.take(session.kind, session.free)
            if not joining:
                session.expect(self._inbox.peek(session.kind, session.slots))
                return
            self._join(session, joining, load_seconds)
            load_seconds = 0.0
            del session  # whoever opens the next one must find nobody who holds the model of this one

    def _suits(self, head: Wanted) -> bool:
        """Its session runs, or could: memory may have come or gone since an idle one was opened."""
        session = self._session
        if session is None or session.kind != head.kind:
            return False
        if self._fresh or not session.idle:
            return True
        return not session.spent and self._grants.fitting(session.config) == session.slots

    def _open_for(self, head: Wanted) -> float:
        """The seconds that loading took. Those who want what cannot be had are refused, and wait no more."""
        if self._session is None or self._session.kind != head.kind:
            self._heart.beat(None, loading=True)
        try:
            return self.open(head.config)
        except ModelUnavailable as error:
            keys, problem = self._inbox.drop_model(head.config.model_key), str(error)
        except ValueError as error:
            keys, problem = self._inbox.drop_kind(head.kind), str(error)
        except torch.OutOfMemoryError as error:
            keys, problem = self._inbox.drop_kind(head.kind), trouble(error).message
        self._outbox.say([Refused(tuple(keys), problem)])
        return 0.0

    def _join(self, session: Session, joining: list[Wanted], load_seconds: float) -> None:
        keys = tuple(one.key for one in joining)
        if load_seconds:
            self._loads.update(dict.fromkeys(keys, load_seconds / len(keys)))
        self._outbox.say([Joined(keys)])
        self._fresh = False
        session.join(joining)

    def _step(self) -> None:
        session = self._session
        assert session is not None
        self._tracer.before_step()
        self._since = time.monotonic()
        outcomes = session.step()
        self._heart.rest()
        self._tell(outcomes)
        self._observe(session)

    def _observe(self, session: Session) -> None:
        if observed := self._observations.due(session):
            self._grants.observe(session.kind, session.peak_slots, session.peak_bytes)
            self._outbox.say(observed)

    def _stepped(self) -> None:
        """After each step of a session, and within it: the next one waits for this."""
        self._heart.stepped(time.monotonic() - self._since)
        if self._tracer.after_step():
            self._heart.beat(self._session, loading=True)  # to write it takes long
            if (traced := self._tracer.take()) is not None:
                self._outbox.say([traced])
        self._beat()
        self._attend(0.0)
        if self._session is not None and self._session.fill:
            self._tracer.before_step()
        self._since = time.monotonic()

    def _tell(self, outcomes: Sequence[Outcome]) -> None:
        """Who was drawn and who failed at once; a picture when it is encoded."""
        self._outbox.say([self._with_load(one) for one in outcomes if not isinstance(one, Decoded)])
        for one in outcomes:
            if isinstance(one, Decoded):
                self._observations.note(one)
                self._encoder.put(replace(one, share=self._load_booked(one.wanted.key, one.share)), self._beat)

    def _with_load(self, event: Drawn | Ended | Refused) -> Event:
        if isinstance(event, Ended):
            return replace(event, share=self._load_booked(event.key, event.share))
        if isinstance(event, Refused):
            for key in event.keys:
                self._loads.pop(key, None)
        return event

    def _load_booked(self, key: str, share: Share) -> Share:
        seconds = self._loads.pop(key, None)
        return share if seconds is None else replace(share, timings={"load": seconds, **share.timings})

"""What the consumer sent and the engine has not done yet. Items wait here, strictly in the order in which they came."""

from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection

from gpu_consumer.engine.protocol import Batch, Learn, Leave, Peak, Profile
from gpu_consumer.engine.sessions.base import Wanted


class HungUp(BaseException):
    """The consumer closed the pipe, which is how an engine is told to end. No Exception: it is no fault of an item."""


class Inbox:
    """The engine's end of the pipe. For one thread. Raises HungUp from `read`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: deque[Wanted] = deque()
        self._peaks: list[Peak] = []
        self._profile_steps = 0

    def read(self, seconds: float = 0.0) -> list[str]:
        """Take in what has come; wait up to `seconds` for the first of it. The keys of those that are to leave."""
        leaving: list[str] = []
        try:
            while self._connection.poll(seconds):
                seconds = 0.0
                message: Batch | Leave | Learn | Profile = self._connection.recv()
                match message:
                    case Batch(config, items):
                        self._waiting += [Wanted(item, config) for item in items]
                    case Leave(keys):
                        leaving += keys
                    case Learn(peaks):
                        self._peaks += peaks
                    case Profile(steps):
                        self._profile_steps = steps
        except (EOFError, OSError) as error:
            raise HungUp from error
        return leaving

    @property
    def head(self) -> Wanted | None:
        """Whose turn it is."""
        return self._waiting[0] if self._waiting else None

    def take(self, kind: str, count: int) -> list[Wanted]:
        """At most `count` from the head, as far as they are of `kind`."""
        taken: list[Wanted] = []
        while len(taken) < count and self._waiting and self._waiting[0].kind == kind:
            taken.append(self._waiting.popleft())
        return taken

    def peek(self, kind: str, count: int) -> Sequence[Wanted]:
        """What `take` would give."""
        found: list[Wanted] = []
        for one in self._waiting:
            if len(found) >= count or one.kind != kind:
                break
            found.append(one)
        return found

    def drop(self, key: str) -> bool:
        """It waits no more; False if it did not wait here."""
        found = next((one for one in self._waiting if one.key == key), None)
        if found is not None:
            self._waiting.remove(found)
        return found is not None

    def drop_model(self, model_key: str) -> list[str]:
        """The keys of all that want this model, which wait no more."""
        dropped = [one.key for one in self._waiting if one.config.model_key == model_key]
        self._waiting = deque(one for one in self._waiting if one.config.model_key != model_key)
        return dropped

    def drop_kind(self, kind: str) -> list[str]:
        dropped = [one.key for one in self._waiting if one.kind == kind]
        self._waiting = deque(one for one in self._waiting if one.kind != kind)
        return dropped

    def take_peaks(self) -> list[Peak]:
        peaks, self._peaks = self._peaks, []
        return peaks

    def take_profile(self) -> int:
        """How many steps are to be traced from now on; 0 if nobody asked since the last call."""
        steps, self._profile_steps = self._profile_steps, 0
        return steps

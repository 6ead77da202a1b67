"""What the engine says: one pipe, for the step loop and for the thread that encodes."""

import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

from gpu_consumer.engine.inbox import HungUp
from gpu_consumer.engine.protocol import Broken, Event, Ready
from gpu_consumer.engine.shm import send_events


class Outbox:
    """For any thread. Blocks while the pipe is full. Raises HungUp where nobody reads it any more."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def say(self, events: Sequence[Event]) -> None:
        """Nothing is said of no events."""
        if not events:
            return
        try:
            with self._lock:
                send_events(self._connection, events)
        except OSError as error:
            raise HungUp from error

    def tell(self, message: Ready | Broken) -> None:
        try:
            with self._lock:
                self._connection.send(message)
        except OSError as error:
            raise HungUp from error

"""The life of an engine process, from its set-up to its end. Imports torch."""

import traceback
from multiprocessing.connection import Connection

from gpu_consumer.engine.device import open_device
from gpu_consumer.engine.encoder import Encoder
from gpu_consumer.engine.faults import Sticky
from gpu_consumer.engine.inbox import Inbox
from gpu_consumer.engine.outbox import Outbox
from gpu_consumer.engine.protocol import Broken, Pulse, Setup
from gpu_consumer.engine.residence import Residence
from gpu_consumer.engine.sessions.server import Server
from gpu_consumer.engine.sharing import Shelf
from gpu_consumer.engine.warm import WrongAnswer, warm_up
from gpu_consumer.models.digests import ModelUnavailable


def serve(connection: Connection, setup: Setup, import_seconds: float) -> None:
    """Load, warm up, and make pictures until this engine is Broken, and says so. Raises HungUp when the pipe closes."""
    outbox = Outbox(connection)
    encoder = Encoder(outbox.say, outbox.tell, seconds_max=setup.settings.encode_seconds_max)
    try:
        device = open_device(setup.settings)
        shelf = Shelf(setup.board) if setup.board is not None else None
        residence = Residence.of(device, setup.settings, shelf)
        server = Server(device, residence, Inbox(connection), outbox, encoder)
        ready = warm_up(server, device.info(), setup.preload, setup.answers, import_seconds)
        if shelf is not None:
            shelf.announce()
        outbox.tell(ready)
        server.serve()
    except Exception as error:
        broken = _broken(error)
        if broken.kind == "crash":
            traceback.print_exc()  # to stderr, for people
    encoder.close(lambda: outbox.say([Pulse("nothing")]))  # what was decoded before is as good as ever
    outbox.tell(broken)


def _broken(error: Exception) -> Broken:
    if isinstance(error, ModelUnavailable):
        return Broken("model_unavailable", str(error))
    if isinstance(error, WrongAnswer):
        return Broken("wrong_answer", str(error))
    if isinstance(error, Sticky):
        return Broken("sticky", f"the device is lost to the engine: {error}")
    return Broken("crash", f"{type(error).__name__}: {error}")

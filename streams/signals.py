"""How a service is asked to stop."""

import asyncio
import signal
from collections.abc import Awaitable, Callable


async def until_signal(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Serve until SIGTERM or SIGINT sets the event, and until that has come to its end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    await serve(stop)

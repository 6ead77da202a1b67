"""The owners of the partitions assigned to this process: what an intake hands requests to."""

import asyncio
import logging
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from admission.arrival import Arrival
from streams.holding import Surroundings
from streams.owner import Owner

log = logging.getLogger(__name__)


class Owners:
    """One owner task an assigned partition. An owner that ends by an exception ends the service: see `failure`."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._tasks: dict[Owner, asyncio.Task[None]] = {}
        self._owners: dict[int, Owner] = {}
        self._closed = False
        self._joined = False
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def assigned(self, partitions: AbstractSet[int]) -> None:
        """These and no others. Does not wait for the leases to open."""
        self._joined = True
        await self._let_go([number for number in self._owners if number not in partitions])
        for number in sorted(partitions - self._owners.keys()):
            if self._closed:
                return
            owner = self._owners[number] = Owner(number, self._around)
            task = self._tasks[owner] = asyncio.create_task(owner.run(), name=f"owner of requests[{number}]")
            task.add_done_callback(self._ended)
        log.info("assigned: requests%s", sorted(partitions))

    async def revoked(self, partitions: AbstractSet[int]) -> None:
        await self._let_go([number for number in self._owners if number in partitions])

    async def feed(self, partition: int, arrivals: Iterable[Arrival]) -> None:
        owner = self._owners.get(partition)
        if owner is not None:  # or they came after the revocation (case AIO-17)
            await owner.inbox.put(arrivals)

    async def close(self) -> None:
        """Let go of everything, for good."""
        self._closed = True
        await self._let_go(list(self._owners))

    @property
    def owners(self) -> Iterable[Owner]:
        return self._owners.values()

    @property
    def problem(self) -> str | None:
        """Why not all assigned partitions are open. A member without partitions is well."""
        if not self._joined:
            return "this process has not joined its group yet"
        for number, owner in self._owners.items():
            if owner.problem is not None:
                return f"requests[{number}]: {owner.problem}"
        return None

    async def _let_go(self, numbers: Iterable[int]) -> None:
        """Ask them all to stop, then cancel who is not done in time. An owner that is cancelled has a void lease, and
        whatever it had under way is decided by the next owner's fence."""
        leaving = [self._owners.pop(number) for number in numbers]
        for owner in leaving:
            owner.ask_to_stop()
        tasks = {self._tasks.pop(owner) for owner in leaving}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self._around.settings.revoke_grace_seconds)
        for task in late:
            log.warning("%s did not stop in time and is cancelled", task.get_name())
            task.cancel()
        if late:
            # Bounded by the lease's own closing.
            await asyncio.wait(late)
        for owner in leaving:
            self._around.metrics.forget_partition(owner.partition)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_result(error)

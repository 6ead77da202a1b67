"""Until when each job may wait. Pure."""

import heapq


class Deadlines:
    """Seconds of one steady clock, a job. `len` is what is remembered, of jobs that are gone too."""

    def __init__(self) -> None:
        self.due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []  # an entry that is not the job's `due` is stale

    def __len__(self) -> int:
        return len(self._heap)

    def expect(self, job: str, deadline: float) -> None:
        if self.due.get(job) != deadline:
            self.due[job] = deadline
            heapq.heappush(self._heap, (deadline, job))

    def forget(self, job: str) -> None:
        """Harmless where it is not known."""
        self.due.pop(job, None)

    def next(self) -> tuple[float, str] | None:
        """The earliest, and whose it is."""
        heap = self._heap
        if len(heap) > 2 * len(self.due) + 64:  # jobs mostly end long before their deadlines
            heap[:] = [(deadline, job) for job, deadline in self.due.items()]
            heapq.heapify(heap)
        while heap and self.due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0] if heap else None

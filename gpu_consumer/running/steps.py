"""How far each job is, and what of that is news. Pure: the time is passed in."""

from datetime import datetime

from gpu_consumer.backlog import Backlog, Job
from gpu_consumer.running.inside import Inside
from schemas.progress import ProgressEvent, State

_UNTOLD, _QUEUED, _STARTED = -2, -1, 0  # and then the steps that were told


class Steps:
    """Looks when it is asked, and at nothing in between: what runs pays nothing for being watched.

    A job is told of from the second look on that finds it, so that one that ends sooner costs no event. It never goes
    back: pictures that are begun again are news where they have come further than before.
    """

    def __init__(self, backlog: Backlog, inside: Inside, pool: str) -> None:
        self._backlog = backlog
        self._inside = inside
        self._pool = pool
        self._told: dict[str, int] = {}  # by job id: a job itself would keep its pictures

    def news(self, at: datetime) -> list[ProgressEvent]:
        """One event of each job that is further than the last time, and that nothing is decided of. It is told now."""
        told: dict[str, int] = {}
        found: list[ProgressEvent] = []
        for job in self._backlog.jobs.values():
            before = self._told.get(job.id)
            if job.phase != "queued" or job.decided:
                if before is not None:
                    told[job.id] = before
            elif before is None:
                told[job.id] = _UNTOLD
            else:
                far = self._far(job)
                told[job.id] = max(before, far)
                if far > before:
                    found.append(self._event(job, far, at))
        self._told = told
        return found

    def _far(self, job: Job) -> int:
        return _STARTED + self._inside.steps_made(job) if job.started else _QUEUED

    def _event(self, job: Job, far: int, at: datetime) -> ProgressEvent:
        item = job.item
        state: State = "queued" if far == _QUEUED else "started" if far == _STARTED else "step"
        return ProgressEvent(
            tenant=item.tenant,
            request_id=item.request_id,
            job_id=item.job_id,
            state=state,
            step=max(0, far),
            steps=job.images * item.config.steps,
            drawing=self._inside.drawing(job),
            pool=self._pool,
            config_hash=item.config_hash,
            at=at,
        )

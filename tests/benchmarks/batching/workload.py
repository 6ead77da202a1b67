"""The work that every policy gets: Poisson arrivals of pictures of one model that differ in their number of steps."""

import random
from dataclasses import dataclass

STEP_COUNTS = (20, 28, 30, 40, 50)
MEAN_STEPS = sum(STEP_COUNTS) / len(STEP_COUNTS)


@dataclass(frozen=True, slots=True)
class Job:
    """One picture, asked for at `arrival` seconds."""

    number: int
    arrival: float
    steps: int


def poisson(rate: float, jobs: int, seed: int) -> list[Job]:
    """`rate` in pictures a second; each step count as likely as the others. Always the same of a seed."""
    draw = random.Random(seed)
    now = 0.0
    made = []
    for number in range(jobs):
        now += draw.expovariate(rate)
        made.append(Job(number, now, draw.choice(STEP_COUNTS)))
    return made


def backlog(jobs: int, seed: int) -> list[Job]:
    """All there from the start: more than any policy can do."""
    return [Job(job.number, 0.0, job.steps) for job in poisson(1.0, jobs, seed)]

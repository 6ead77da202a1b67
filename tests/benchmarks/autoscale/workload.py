"""A week of a service that draws pictures and clips: people who wait, and lists of pictures that have until later."""

from infra.planner.request import Request
from infra.planner.shape import WEEK_SECONDS, Kind, week
from infra.planner.trace import free_config

SPEED = 8.0  # a week in 21 hours, so that a cold start of 120 s is as 16 minutes of the shape
GPUS = 3.0  # that would do it on the average, always busy
TAIL_SECONDS = 7200.0  # after the last arrival: the longest that anything may take


def requests(seed: int) -> list[Request]:
    return list(week(seed, SPEED).arrivals(_kinds(), GPUS, seed))


def until() -> float:
    return WEEK_SECONDS / SPEED + TAIL_SECONDS


def _kinds() -> list[Kind]:
    return [
        Kind(free_config("picture", "stills", 4.0), 0.40, "interactive", 300.0, "people"),
        Kind(free_config("clip", "clips", 60.0), 0.06, "standard", 360.0, "people"),
        Kind(free_config("list", "stills", 8.0), 0.54, "bulk", TAIL_SECONDS, "shop", together=600),
    ]

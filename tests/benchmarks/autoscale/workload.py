"""A week of a service that draws pictures and clips: people who wait, and lists of pictures that have until later."""

from infra.planner.cells import free_config
from infra.planner.request import Request
from infra.planner.shape import WEEK_SECONDS, Kind, week

SPEED = 8.0  # a week in 21 hours, so that a cold start of 120 s is as 16 minutes of the shape
GPUS = 4.5  # that would do it on the average, always busy
TAIL_SECONDS = 7200.0  # after the last arrival: the longest that anything may take
LIST = 600  # pictures at once


def requests(seed: int) -> list[Request]:
    return list(week(seed, SPEED).arrivals(_kinds(), GPUS, seed))


def until() -> float:
    return WEEK_SECONDS / SPEED + TAIL_SECONDS


def _kinds() -> list[Kind]:
    picture, clip = free_config("picture", "stills", 8.0), free_config("clip", "clips", 60.0)
    return [
        Kind(picture, 0.40, "interactive", 300.0, "people"),
        Kind(clip, 0.08, "standard", 420.0, "people"),
        Kind(picture, 0.52, "bulk", TAIL_SECONDS, "shop", together=LIST),
    ]

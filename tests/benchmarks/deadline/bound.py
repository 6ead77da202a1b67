"""What nobody can beat: an upper bound on the requests that end in time, with all arrivals known beforehand."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from infra.planner.request import Request


def bound(requests: Sequence[Request]) -> float:
    """Requests in time of one device that may cut each into pieces, interrupt it, and is credited a part for a part.

    A schedule exists for some amounts of each request if and only if no interval [a, b] must hold more than b - a of
    what arrives and is due within it (Horn, 1974), so the amounts form a polymatroid, and taking as much as fits of the
    shortest first is the best that there is (Edmonds, 1970). Any schedule of whole requests is one of these.
    """
    arrivals = np.unique(np.array([request.arrival for request in requests], dtype=np.float64))
    deadlines = np.unique(np.array([request.deadline for request in requests], dtype=np.float64))
    free: npt.NDArray[np.float64] = deadlines[None, :] - arrivals[:, None]
    free[free < 0] = np.inf
    total = 0.0
    for request in sorted(requests, key=lambda each: each.seconds):
        until = np.searchsorted(arrivals, request.arrival, side="right")
        since = np.searchsorted(deadlines, request.deadline, side="left")
        around = free[:until, since:]
        amount = max(0.0, min(request.seconds, float(around.min())))
        around -= amount
        total += amount / request.seconds
    return total

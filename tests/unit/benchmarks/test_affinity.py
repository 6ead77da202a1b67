"""The arithmetic of bench-affinity's virtual pool."""

from collections import Counter
from collections.abc import Sequence

import pytest

from schemas.config import GenerationConfig
from tests.benchmarks.affinity.policies import ArrivalOrder, OurQueue, SpreadRouter
from tests.benchmarks.affinity.pool import Device, Pool, Queue, Seen
from tests.benchmarks.affinity.workload import CONFIGS, MODELS, Request, configs, poisson

DEVICE = Device(base=6.0, each=1.0, bucket=8, swap=20.0)
ASKED = configs(1, 8, 7.0)


class OneRouter:
    def partition(self, request: Request) -> int:
        del request
        return 0

    def tick(self, now: float) -> None: ...


def run(arrivals: Sequence[tuple[float, GenerationConfig]], queue: Queue, seconds: float = 1000.0) -> Seen:
    requests = [Request(number, at, config) for number, (at, config) in enumerate(arrivals)]
    return Pool(DEVICE, 1, OneRouter(), lambda: queue, 512).run(requests, seconds, {0.0: 1}, since=0.0)


def test_a_swap_and_a_run_are_waited_for() -> None:
    one, other = ASKED[0], next(each for each in ASKED if each.model_key != ASKED[0].model_key)
    seen = run([(1.0, one), (2.0, other)], ArrivalOrder(8, 0.0))
    assert (seen.done, seen.runs, seen.swaps) == (2, 2, 2)
    assert seen.waits == pytest.approx([20.0, 1 + 20 + 7 - 2 + 20])


def test_what_comes_within_the_window_shares_a_batch() -> None:
    seen = run([(1.0, ASKED[0]), (1.2, ASKED[0]), (9.0, ASKED[0])], ArrivalOrder(8, 0.25))
    assert (seen.done, seen.runs, seen.swaps) == (3, 2, 1)


def test_our_queue_runs_what_is_loaded_first() -> None:
    one, other = ASKED[0], next(each for each in ASKED if each.model_key != ASKED[0].model_key)
    asked = [(0.0, one), (1.0, other), (2.0, one), (3.0, other)]
    assert run(asked, OurQueue(0.0, 100.0, 10)).swaps == 2
    assert run(asked, ArrivalOrder(8, 0.0)).swaps == 4


def test_nothing_is_lost_while_consumers_come_and_go() -> None:
    pool = Pool(DEVICE, 6, SpreadRouter(6), lambda: OurQueue(0.25, 100.0, 64), 64)
    arrivals = list(poisson(ASKED, {0.0: 0.2}, 500.0, 1))
    seen = pool.run(arrivals, 50_000.0, {0.0: 2, 200.0: 5, 300.0: 1}, since=0.0)
    assert seen.done == len(seen.waits) == len(arrivals)
    assert seen.busiest >= 1.0


def test_every_model_is_asked_for_and_the_first_configurations_most() -> None:
    assert len({each.model_key for each in ASKED}) == MODELS
    assert len({each.config_hash for each in ASKED}) == CONFIGS
    counts = Counter(request.config.label for request in poisson(ASKED, {0.0: 10.0, 100.0: 30.0}, 200.0, 1))
    assert counts.most_common(1)[0][0] == ASKED[0].label
    assert sum(counts.values()) == pytest.approx(4000, rel=0.1)

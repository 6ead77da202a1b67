"""The arithmetic of bench-affinity's virtual pool."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from gpu_consumer.scheduling.scheduler import Scheduler
from infra.planner.given import Queue, Router
from infra.planner.house import House
from infra.planner.pool import Pool
from infra.planner.request import Request
from schemas.config import GenerationConfig
from tests.benchmarks.affinity.policies import ArrivalOrder, SpreadRouter
from tests.benchmarks.affinity.seen import Device, Seen, Steps
from tests.benchmarks.affinity.workload import CONFIGS, MODELS, configs, poisson

DEVICE = Device(base=6.0, each=1.0, bucket=8, swap=20.0)
ASKED = configs(1, 8, 7.0)


class OneRouter:
    def partition(self, request: Request) -> int:
        del request
        return 0

    def tick(self, now: float) -> None: ...


def scheduler(batch_wait: float, look_ahead: int) -> Scheduler:
    return Scheduler(batch_wait, affinity_wait_seconds=100.0, look_ahead=look_ahead)


def run(arrivals: Sequence[tuple[float, GenerationConfig]], queue: Queue, seconds: float = 1000.0) -> Seen:
    requests = [Request(number, at, config) for number, (at, config) in enumerate(arrivals)]
    return simulate(requests, OneRouter(), 1, queue, seconds, {0.0: 1})


def simulate(
    requests: Sequence[Request],
    router: Router,
    partitions: int,
    queue: Queue | None,
    seconds: float,
    sizes: Mapping[float, int],
) -> Seen:
    seen = Seen(0.0)
    make = (lambda: scheduler(0.25, 64)) if queue is None else (lambda: queue)
    house = House(partitions, models_held=1, rebalance_seconds=0.0, backlog_max=64)
    pool = Pool(DEVICE, house, router, make, seen)
    pool.run(requests, seconds, Steps(sizes, seen))
    seen.count_phase([each.name for each in pool.staying()])
    return seen


def test_a_swap_and_a_run_are_waited_for() -> None:
    one, other = ASKED[0], next(each for each in ASKED if each.model_key != ASKED[0].model_key)
    seen = run([(1.0, one), (2.0, other)], ArrivalOrder(8, 0.0, (1.0, 2.0)))
    assert (seen.done, seen.runs, seen.swaps) == (2, 2, 2)
    assert seen.waits == pytest.approx([20.0, 1 + 20 + 7 - 2 + 20])


def test_what_comes_within_the_window_shares_a_batch() -> None:
    seen = run([(1.0, ASKED[0]), (1.2, ASKED[0]), (9.0, ASKED[0])], ArrivalOrder(8, 0.25, (1.0, 1.2, 9.0)))
    assert (seen.done, seen.runs, seen.swaps) == (3, 2, 1)


def test_our_queue_runs_what_is_loaded_first() -> None:
    one, other = ASKED[0], next(each for each in ASKED if each.model_key != ASKED[0].model_key)
    asked = [(0.0, one), (1.0, other), (2.0, one), (3.0, other)]
    assert run(asked, scheduler(0.0, 10)).swaps == 2
    assert run(asked, ArrivalOrder(8, 0.0, [at for at, _ in asked])).swaps == 4


def test_nothing_is_lost_while_consumers_come_and_go() -> None:
    arrivals = list(poisson(ASKED, {0.0: 0.2}, 500.0, 1))
    seen = simulate(arrivals, SpreadRouter(6), 6, None, 50_000.0, {0.0: 2, 200.0: 5, 300.0: 1})
    assert seen.done == len(seen.waits) == len(arrivals)
    assert seen.busiest >= 1.0


def test_every_model_is_asked_for_and_the_first_configurations_most() -> None:
    assert len({each.model_key for each in ASKED}) == MODELS
    assert len({each.config_hash for each in ASKED}) == CONFIGS
    counts = Counter(request.config.label for request in poisson(ASKED, {0.0: 10.0, 100.0: 30.0}, 200.0, 1))
    assert counts.most_common(1)[0][0] == ASKED[0].label
    assert sum(counts.values()) == pytest.approx(4000, rel=0.1)
